"""An application that answers requests, which knows nothing about Salus: answers.py MODEL --rate R --seconds S.

Requests come at random times, R a second on average. Prints a JSON object: for each request the time from its arrival to its
answer, ms, and the time in which some request was being answered, s. MODEL is one of torchvision, or of models.py.
"""

import argparse
import json
import random
import time

import torch

from meeting import add_arguments, meet
from models import MODELS

WARM_UP = 5


def model_of(name, tiny):
    if name in MODELS:
        model, inputs, _, _ = MODELS[name](1, tiny)
        return model, inputs
    import torchvision

    size = 299 if name == "inception_v3" else 224
    return torchvision.models.get_model(name, weights=None), torch.randn(1, 3, size, size)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--rate", type=float, default=5)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    add_arguments(parser)
    args = parser.parse_args()
    model, inputs = model_of(args.model, args.tiny)
    model, inputs = model.to(args.device).eval(), inputs.to(args.device)
    arrivals = random.Random(args.seed)

    @torch.no_grad()
    def answer():
        return model(inputs).sum().item()  # waits for the device

    for _ in range(WARM_UP):
        answer()
        time.sleep(0.05)
    meet(args)
    begin = arrival = time.monotonic()
    latencies, busy = [], 0.0
    while True:
        arrival += arrivals.expovariate(args.rate)
        if arrival > begin + args.seconds:
            break
        time.sleep(max(arrival - time.monotonic(), 0))
        started = time.monotonic()
        answer()
        ended = time.monotonic()
        latencies.append((ended - arrival) * 1000)
        busy += ended - started
    print(json.dumps({"model": args.model, "latencies": latencies, "busy_s": busy, "begin": begin, "end": time.monotonic()}))


if __name__ == "__main__":
    main()

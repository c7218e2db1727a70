"""An application that answers requests, which knows nothing about Salus: answers.py MODEL --pipes PREFIX.

The line `answer BEGIN SECONDS RATE SEED` lets requests come at random times from BEGIN on, on the monotonic clock, RATE a second
on average; the same SEED gives the same times. The answer has the time of each request from its arrival to its answer, ms, and the
time in which one was being answered, s. `hold SECONDS` is one request that takes so long. MODEL is one of torchvision, or of
models.py.
"""

import argparse
import random
import time

import torch

from models import MODELS
from on_demand import repeat, serve

WARM_UP = 5


def model_of(name, tiny):
    if name in MODELS:
        model, inputs, _, _ = MODELS[name](1, tiny)
        return model, inputs
    import torchvision

    size = 299 if name == "inception_v3" else 224
    return torchvision.models.get_model(name, weights=None), torch.randn(1, 3, size, size)


class Long(torch.nn.Module):
    """A model whose call takes as long as it is told: one request."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, inputs, end):
        return len(repeat(lambda: self.model(inputs).sum().item(), end))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--pipes", required=True, metavar="PREFIX")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    model, inputs = model_of(args.model, args.tiny)
    model, inputs = model.to(args.device).eval(), inputs.to(args.device)

    long = Long(model)

    @torch.no_grad()
    def one():
        return model(inputs).sum().item()  # waits for the device

    @torch.no_grad()
    def hold(seconds):
        return long(inputs, time.monotonic() + seconds)

    def answer(begin, seconds, rate, seed):
        arrivals = random.Random(int(seed))
        latencies, busy, arrival = [], 0.0, begin
        while True:
            arrival += arrivals.expovariate(rate)
            if arrival > begin + seconds:
                return {"latencies": latencies, "busy_s": round(busy, 6)}
            time.sleep(max(arrival - time.monotonic(), 0))
            started = time.monotonic()
            one()
            ended = time.monotonic()
            latencies.append(round((ended - arrival) * 1000, 3))
            busy += ended - started

    for _ in range(WARM_UP):
        one()
        time.sleep(0.05)
    serve(args.pipes, {"answer": answer, "hold": hold})


if __name__ == "__main__":
    main()

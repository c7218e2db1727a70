# contended
"""Four threads of a server share one model; each goes on working in place on its own outputs after its call.

All numbers are whole, so that a byte that somebody else wrote shows in a sum.
"""
import random
import sys
import threading
import time

import torch
from torch import nn
from _common import DEVICE, MIB, at_most

THREADS, REQUESTS, KEPT, ADDED = 4, 300, 3, 10
SIZES = (MIB, 2 * MIB, 3 * MIB)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(2.0))

    def forward(self, x, pause):
        first = x * self.factor
        second = first + 1
        time.sleep(pause)  # other threads leave their calls meanwhile
        return second * self.factor


def check(number, output, wanted):
    low, high, total = output.min().item(), output.max().item(), output.sum(dtype=torch.float64).item()
    if (low, high, total) != (wanted, wanted, wanted * output.numel()):
        wrong.append("thread %d: %g to %g, on average %r, not %g" % (number, low, high, total / output.numel(), wanted))


def serve(number):
    chance = random.Random(number)
    outputs = []
    try:
        with torch.inference_mode():
            inputs = [torch.full((size,), float(number + 1), device=DEVICE) for size in SIZES]
            for request in range(REQUESTS):
                output = model(inputs[request % len(SIZES)], chance.random() * 0.002)
                for _ in range(ADDED):
                    output.add_(1.0)
                outputs.append(output)
                check(number, output, 2 * (2 * (number + 1) + 1) + ADDED)
                if len(outputs) > KEPT:
                    older = outputs.pop(0)
                    older.mul_(3.0)
                    check(number, older, 3 * (2 * (2 * (number + 1) + 1) + ADDED))
                if len(wrong) > 5:
                    return
        served.append(number)
    except Exception as error:
        wrong.append("thread %d: %s: %s" % (number, type(error).__name__, error))


at_most(80)
model = Model().to(DEVICE).eval()
wrong, served = [], []
threads = [threading.Thread(target=serve, args=(number,)) for number in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if wrong or len(served) != THREADS:
    print("wrong: " + "; ".join(wrong[:5]))
    sys.exit(1)
print("ok %d threads share a model, %d requests each, and own their outputs" % (THREADS, REQUESTS))

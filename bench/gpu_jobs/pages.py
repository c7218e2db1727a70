"""A job that holds much memory across iterations and uses all of it in each: for bench/gpu paging.

Usage: pages.py GIB --until FILE [--device cuda|cpu] [--ready FILE] [--go FILE]

It prints when each iteration that came after a pause ended, on the monotonic clock, and whether the memory was right.
"""

import argparse
import json
import os
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("gib", type=float)
parser.add_argument("--until", required=True)
parser.add_argument("--device", default="cuda")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--ready", help="a file that it makes when it has attached")
parser.add_argument("--go", help="a file for which it then waits before it takes its memory")
args = parser.parse_args()


class Sums(torch.nn.Module):
    """Blocks of up to 1 GiB. Its forward pass is one iteration, and reads a little of each block."""

    def __init__(self, size):
        super().__init__()
        numbers = max(int(size * 2**30) // 4, 1 << 20)
        block = min(numbers, 1 << 28)
        self.blocks = torch.nn.ParameterList(
            torch.nn.Parameter(torch.empty(block, device=args.device), requires_grad=False) for _ in range(numbers // block))
        for number, part in enumerate(self.blocks):
            torch.arange(block, dtype=part.dtype, out=part.data)  # without a copy: memory is what is scarce here
            part.data.remainder_(1000).add_(number + args.seed)

    def forward(self):
        return torch.stack([part[::65536].sum() for part in self.blocks])


def total(part):
    return sum(float(piece.sum(dtype=torch.float64)) for piece in part.split(1 << 22))


def wait():
    if args.device == "cuda":
        torch.cuda.current_stream().synchronize()


with torch.no_grad():  # it attaches
    for _ in range(3):
        torch.nn.Linear(8, 8).to(args.device)(torch.ones(8, device=args.device))
wait()
if args.ready:
    open(args.ready, "w").close()
while args.go and not os.path.exists(args.go):
    time.sleep(0.05)
model = Sums(args.gib)
whole = [total(part) for part in model.blocks]
with torch.no_grad():
    right = model()
    first, wrong, iterations, last = [], 0, 0, time.monotonic()
    print("ready", flush=True)
    while not os.path.exists(args.until):
        found = model()
        wait()
        now = time.monotonic()
        if now - last > 0.05:  # it had to wait
            first.append(now)
        last = now
        wrong += not torch.equal(found, right)
        iterations += 1
        time.sleep(0.001)
    wrong += [total(part) for part in model.blocks] != whole
print(json.dumps({"first": first, "wrong": wrong, "iterations": iterations}))

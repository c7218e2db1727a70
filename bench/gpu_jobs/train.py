"""An ordinary training, which knows nothing about Salus and prints at its end what bench/gpu wants to know, as JSON.

    train.py MODEL --iterations 100                    so many
    train.py MODEL --warmup 30 --pipes PREFIX          some, then what it is told (on_demand.py): `block N` runs N and answers how
                                                       long one took, ms; `train END` runs until then and answers the ends
    train.py MODEL --until FILE --ready FILE2          until there is FILE; makes FILE2 when it is warm

`ends` are times on the monotonic clock, s, at which iterations ended on the device: by CUDA events, nothing waits for them.
"""

import argparse
import hashlib
import json
import os
import time

import torch

from meeting import add_arguments, meet
from models import MODELS
from on_demand import serve

UNTIMED = 3  # iterations at the begin of a block: the processor has seen other work since the last one


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=0)
    parser.add_argument("--warmup", type=int, default=30)
    parser.add_argument("--pipes", metavar="PREFIX")
    parser.add_argument("--until", metavar="FILE")
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--compile", metavar="MODE", help="of torch.compile; reduce-overhead makes graphs of a step")
    parser.add_argument("--processors", metavar="N,...", help="that it trains on; it starts on any")
    add_arguments(parser)
    return parser.parse_args()


class Clock:
    """When things ended on the device, told afterwards."""

    def __init__(self, device):
        self._cuda = device == "cuda"
        self._marks = []
        self.wait()
        self._start_s = time.monotonic()
        self._start = self._mark()

    def _mark(self):
        if not self._cuda:
            return time.monotonic()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def mark(self):
        self._marks.append(self._mark())

    def wait(self):
        if self._cuda:
            torch.cuda.synchronize()
        return time.monotonic()

    def times(self):
        self.wait()
        if not self._cuda:
            return self._marks
        return [self._start_s + self._start.elapsed_time(mark) / 1000 for mark in self._marks]


def digest_of(model):
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(name.encode() + tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    if args.deterministic:  # what has no such algorithm warns; whether runs are alike is checked
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # here only: torch 2.11 takes twice the time to launch with it
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.deterministic = True
    model, inputs, targets, loss_of = MODELS[args.model](args.batch, args.tiny)
    model, inputs, targets = model.to(args.device), inputs.to(args.device), targets.to(args.device)
    if args.compile:
        model = torch.compile(model, mode=args.compile)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    if args.processors:  # autograd's thread is not there yet, and will inherit it
        os.sched_setaffinity(0, map(int, args.processors.split(",")))

    def iteration():
        loss = loss_of(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def block(count):
        for _ in range(UNTIMED):
            iteration()
        begin = clock.wait()
        for _ in range(int(count)):
            iteration()
        return (clock.wait() - begin) / count * 1000

    def train(end):
        its_clock = Clock(args.device)
        while time.monotonic() < end:
            iteration()
            its_clock.mark()
        return [round(at, 5) for at in its_clock.times()]

    result = {"model": args.model}
    clock = Clock(args.device)
    if args.until:
        for _ in range(args.warmup):
            iteration()
        clock.wait()
        meet(args)
        while not os.path.exists(args.until):
            iteration()
            clock.mark()
        result["ends"] = clock.times()
    elif args.pipes:
        for _ in range(args.warmup):
            iteration()
        clock.wait()
        serve(args.pipes, {"block": block, "train": train})
    else:
        meet(args)
        for number in range(args.iterations):
            loss = iteration()
            if number == 0:
                first = loss.item()
        result.update(first_loss=first, last_loss=loss.item(), weights=digest_of(model))
    if args.device == "cuda":
        result["peak_mib"] = torch.cuda.max_memory_allocated() >> 20
    print(json.dumps(result))


if __name__ == "__main__":
    main()

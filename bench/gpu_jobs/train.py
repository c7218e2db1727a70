"""An ordinary training, which knows nothing about Salus and prints at its end what bench/gpu wants to know, as JSON.

    train.py MODEL --iterations 100                    so many
    train.py MODEL --warmup 30 --pipes PREFIX          some, then what it is told (on_demand.py): `block N` runs N and answers how
                                                       long one took, ms; `train END` runs until then and answers the ends;
                                                       `count N BEGIN` runs N from then on and answers the ends;
                                                       `switch END AT BACK` is `train END` with --other-batch between these times
    train.py MODEL --pipes PREFIX --later              the same, but sets up and warms up when it is told `begin`
    train.py MODEL --until FILE --ready FILE2          until there is FILE; makes FILE2 when it is warm

`ends` are times on the monotonic clock, s, at which iterations ended on the device: by CUDA events, nothing waits for them.
"""

import argparse
import hashlib
import itertools
import json
import os
import random
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
    parser.add_argument("--later", action="store_true")
    parser.add_argument("--least-length", type=int, metavar="N", help="texts have from N words to all, another number each time")
    parser.add_argument("--loader", type=float, metavar="MS", help="each batch takes a DataLoader so long")
    parser.add_argument("--other-batch", type=int, metavar="N")
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

    def rounded_times(self):
        return [round(at, 5) for at in self.times()]


class SlowBatches(torch.utils.data.IterableDataset):
    """A worker of a DataLoader needs time for each, as if it read and decoded files. Only numbers go through the pipe: a
    container may have little shared memory."""

    def __init__(self, pause_s):
        self._pause_s = pause_s

    def __iter__(self):
        for number in itertools.count():
            time.sleep(self._pause_s)
            yield number


def batches(args, inputs, targets):
    """For ever, on the device."""
    here = inputs.to(args.device), targets.to(args.device)
    if args.loader:
        loader = torch.utils.data.DataLoader(SlowBatches(args.loader / 1000), batch_size=None, num_workers=1)
        return ((inputs.to(args.device), targets.to(args.device)) for _ in loader)
    if args.least_length:
        draw = random.Random(args.seed)
        lengths = (draw.randint(args.least_length, inputs.shape[1]) for _ in itertools.count())
        return ((here[0][:, :length], here[1][:, :length]) for length in lengths)
    return itertools.repeat(here)


def digest_of(model):
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(name.encode() + tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


class Training:
    """What iterates."""

    def __init__(self, args):
        self._device = args.device
        model, inputs, targets, self._loss_of = MODELS[args.model](args.batch, args.tiny)
        self.model = model.to(args.device)
        if args.compile:
            self.model = torch.compile(self.model, mode=args.compile)
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self._batches = batches(args, inputs, targets)
        if args.other_batch:
            self._other = [tensor.to(args.device) for tensor in MODELS[args.model](args.other_batch, args.tiny)[1:3]]
        if args.processors:  # autograd's thread is not there yet, and will inherit it
            os.sched_setaffinity(0, map(int, args.processors.split(",")))

    def iteration(self, other=False):
        inputs, targets = self._other if other else next(self._batches)
        loss = self._loss_of(self.model(inputs), targets)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def block(self, count):
        for _ in range(UNTIMED):
            self.iteration()
        clock = Clock(self._device)
        begin = clock.wait()
        for _ in range(int(count)):
            self.iteration()
        return (clock.wait() - begin) / count * 1000

    def switch(self, end, at, back):
        clock = Clock(self._device)
        while (now := time.monotonic()) < end:
            self.iteration(other=at <= now < back)
            clock.mark()
        return clock.rounded_times()

    def train(self, end):
        return self.switch(end, end, end)

    def count(self, number, begin):
        time.sleep(max(begin - time.monotonic(), 0))
        clock = Clock(self._device)
        for _ in range(int(number)):
            self.iteration()
            clock.mark()
        return clock.rounded_times()

    def warm_up(self, iterations):
        for _ in range(iterations):
            self.iteration()
        Clock(self._device).wait()


def serve_pipes(args):
    """With --later many processes read their libraries at once, and go to the device by turns."""
    training = None

    def begin():
        nonlocal training
        training = Training(args)
        training.warm_up(args.warmup)
        return "up"

    if not args.later:
        begin()
    serve(args.pipes, {"begin": begin, **{name: lambda *numbers, name=name: getattr(training, name)(*numbers)
                                          for name in ("block", "train", "count", "switch")}})


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    if args.deterministic:  # what has no such algorithm warns; whether runs are alike is checked
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # here only: torch 2.11 takes twice the time to launch with it
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.deterministic = True
    result = {"model": args.model}
    if args.pipes:
        serve_pipes(args)
    elif args.until:
        training = Training(args)
        training.warm_up(args.warmup)
        meet(args)
        clock = Clock(args.device)
        while not os.path.exists(args.until):
            training.iteration()
            clock.mark()
        result["ends"] = clock.times()
    else:
        training = Training(args)
        meet(args)
        for number in range(args.iterations):
            loss = training.iteration()
            if number == 0:
                first = loss.item()
        result.update(first_loss=first, last_loss=loss.item(), weights=digest_of(training.model))
    if args.device == "cuda":
        result["peak_mib"] = torch.cuda.max_memory_allocated() >> 20
    print(json.dumps(result))


if __name__ == "__main__":
    main()

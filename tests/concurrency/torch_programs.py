#!/usr/bin/env python3
"""Random threaded PyTorch programs: models called, trained and broken off by 1 to 8 threads that share what comes out.

Usage: torch_programs.py [--device cuda] [--limit S] [--break] FIRST[..LAST]

A seed says all of a program. It prints one line a seed: "17 ok DIGEST threads=5", or "17 FAILED why". All numbers are small and
whole, so that sums are exact in any order, and the digest does not depend on how the threads ran. Nothing here knows of Salus:
the digests of a run under `salus run` and of one without are to be the same. --break changes one number in each program.
"""
import argparse
import faulthandler
import os
import queue
import random
import signal
import sys
import threading
import time
import traceback
import zlib
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

WIDTH = 16
ROWS = 1 << 14  # of WIDTH floats: 1 MiB


class BrokenOff(Exception):
    pass


class Net(nn.Module):
    """Its activations are of 1 MiB times `x`'s; each is whole numbers from -2 to 2."""

    def __init__(self, draw):
        super().__init__()
        generator = torch.Generator().manual_seed(draw.getrandbits(31))
        self.layers = nn.ModuleList()
        for _ in range(draw.randint(1, 3)):
            layer = nn.Conv2d(4, 4, 1) if draw.random() < 0.3 else nn.Linear(WIDTH, WIDTH)
            self.layers.append(layer)
        for parameter in self.parameters():
            parameter.data = torch.randint(-1, 2, parameter.shape, generator=generator).float()
        self.has_pool = draw.random() < 0.3

    def forward(self, x, pause=0.0, breaks_off=False, meanwhile=None, pool=None):
        for number, layer in enumerate(self.layers):
            if isinstance(layer, nn.Conv2d):
                x = layer(x.view(-1, 4, 64, 64)).view(-1, WIDTH)
            else:
                x = layer(x)
            x = torch.remainder(x, 5) - 2
            if meanwhile and number == 0:
                meanwhile()
            if pause:
                time.sleep(pause)
            if breaks_off:
                raise BrokenOff
        if pool and self.has_pool:  # other threads work for this call
            grad_mode = torch.is_grad_enabled()
            x = torch.cat(list(pool.map(lambda part: small(part * 3, grad_mode), x.chunk(2))))
        return x * 1.0


def small(x, grad_mode=False):
    """A thread of a pool has grad on, whatever its caller has."""
    with torch.set_grad_enabled(grad_mode):
        return torch.remainder(x, 5) - 2


class Program:
    def __init__(self, seed, device, broken):
        self.seed, self.device = seed, device
        self.is_broken = broken
        draw = random.Random(seed)
        self.threads = draw.randint(1, 8)
        self.largest = 8 if self.threads <= 2 else 4 if self.threads <= 4 else 2
        self.shared_model = Net(draw).to(device).eval()
        self.passed_on = queue.Queue()
        self.lock = threading.Lock()
        self.digest = 0
        self.working = 0
        self.failures = []
        self.draw = draw

    def note(self, tag, tensor):
        """Independent of order: the sum of a number for each tensor."""
        content = zlib.crc32(memoryview(tensor.detach().cpu().contiguous().numpy()).cast("B"))
        with self.lock:
            self.digest = (self.digest + zlib.crc32(("%s %d" % (tag, content)).encode()) * 0x9E3779B97F4A7C15) % (1 << 64)

    def finish(self, item):
        """What becomes of a tensor in others' hands: the same in any hands."""
        tag, tensor, times = item
        with torch.inference_mode():
            for _ in range(times):
                tensor.add_(1)
            self.note(tag, tensor)

    def serve_one(self):
        try:
            self.finish(self.passed_on.get_nowait())
            return True
        except queue.Empty:
            return False

    def run(self):
        pool = ThreadPoolExecutor(2)
        try:
            first = Worker(self, 0, pool)
            first.run(self.draw.randint(3, 6))
            if self.threads > 1:
                others = [self.make_thread(number, pool) for number in range(1, self.threads)]
                how = self.draw.random()
                first.start_others(others, inside=how < 0.5, waits=how < 0.2)
                first.run(self.draw.randint(0, 5))
                for thread in others:
                    thread.join()
                first.run(self.draw.randint(0, 3))
            first.drop_kept()
            while self.serve_one():
                pass
        finally:
            pool.shutdown()
        return self.digest

    def make_thread(self, number, pool):
        draw = random.Random(self.seed * 1000 + number)
        only_helps = draw.random() < 0.25
        iterations = draw.randint(2, 6)
        if not only_helps:
            self.working += 1

        def work():
            try:
                worker = Worker(self, number, pool)
                worker.run(iterations)
                worker.drop_kept()
            finally:
                with self.lock:
                    self.working -= 1

        def help_others():
            while self.working > 0:
                if not self.serve_one():
                    time.sleep(0.0005)

        def run():
            try:
                help_others() if only_helps else work()
            except BaseException:
                self.failures.append("thread %d: %s" % (number, traceback.format_exc()))

        return threading.Thread(target=run)


class Worker:
    """One thread: calls, training steps, and what is done with their results outside of them."""

    def __init__(self, program, index, pool):
        self.program, self.index, self.pool = program, index, pool
        self.draw = random.Random(program.seed * 1000 + 500 + index)
        rows = ROWS * self.draw.randint(1, program.largest)
        generator = torch.Generator().manual_seed(self.draw.getrandbits(31))
        self.x = torch.randint(-2, 3, (rows, WIDTH), generator=generator).float().to(program.device)
        self.model = program.shared_model
        self.own = Net(self.draw).to(program.device)
        self.optimizer = torch.optim.SGD(self.own.parameters(), lr=1.0, momentum=0.0)
        self.kept = []
        self.last_error = None
        self.step = 0
        self.actions = [self.infer] * 5 + [self.train] * 3 + [self.gradient, self.break_off]
        if program.device == "cuda":
            self.actions += [self.on_side_stream] + ([self.capture] if index == 0 else [])
        self.usual = self.draw.choice(self.actions[:8])

    def run(self, steps):
        for _ in range(steps):
            self.step += 1
            action = self.usual if self.draw.random() < 0.6 else self.draw.choice(self.actions)
            action()
            if self.draw.random() < 0.3:
                self.program.serve_one()

    def start_others(self, others, inside, waits):
        """Perhaps from within a call, whose activations are alive, and which may wait for them."""

        def start():
            for thread in others:
                thread.start()
            for thread in others if waits else []:
                thread.join()

        if not inside:
            return start()
        with torch.inference_mode():
            self.use(self.model(self.x, meanwhile=start, pause=0.002))

    @property
    def tag(self):
        return "%d.%d" % (self.index, self.step)

    def pause(self):
        return self.draw.choice([0, 0, 0, self.draw.random() * 0.002])

    def infer(self):
        with torch.inference_mode():
            self.use(self.model(self.x, pause=self.pause(), pool=self.pool))

    def use(self, y):
        """In place, outside of any call."""
        program = self.program
        for _ in range(self.draw.randint(1, 8)):
            y.add_(1)
        if program.is_broken:
            program.is_broken = False
            y[0, 0] += 1
        if self.draw.random() < 0.3:
            program.note(self.tag + " early", y)
        if program.device == "cpu" and self.draw.random() < 0.15:
            self.fork(y)
        fate = self.draw.random()
        if fate < 0.4:
            program.note(self.tag, y)
        elif fate < 0.6:
            self.kept.append((self.tag, y, self.draw.randint(1, 3)))
            if len(self.kept) > 2:
                program.finish(self.kept.pop(0))
        else:
            item = (self.tag, y, self.draw.randint(1, 6))
            if program.passed_on.qsize() < 6:
                program.passed_on.put(item)
            else:
                program.finish(item)

    def drop_kept(self):
        for item in self.kept:
            self.program.finish(item)
        self.kept = []

    def fork(self, y):
        """A child sees what was there."""
        total = float(y.double().sum())
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            os._exit(0 if float(y.double().sum()) == total else 3)
        y.add_(1)
        status = os.waitpid(child, 0)[1]
        y.sub_(1)
        if status != 0:
            raise AssertionError("a child ended with status %#x" % status)

    def train(self):
        self.optimizer.zero_grad(set_to_none=True)
        y = self.own(self.x, pause=self.pause(), pool=self.pool)
        y.sum().backward()
        self.optimizer.step()
        with torch.no_grad():
            for parameter in self.own.parameters():
                parameter.remainder_(3).sub_(1)
                self.program.note(self.tag + " weights", parameter)
            if self.draw.random() < 0.5:
                self.use(y.detach())

    def gradient(self):
        """Of a function that is no model, outside of any iteration."""
        w = (self.x * 2).requires_grad_()
        y = (w * self.x).sum() + w.clamp(-1, 1).sum()
        gradient, = torch.autograd.grad(y, w)
        with torch.no_grad():
            self.use(gradient)

    def break_off(self):
        try:
            with torch.inference_mode():
                self.model(self.x, pause=self.pause(), breaks_off=True)
        except BrokenOff as error:
            self.last_error = error  # the call's activations live as long as its traceback does
        with torch.no_grad():
            self.use(self.x * 2)

    def on_side_stream(self):
        side = torch.cuda.Stream()
        with torch.inference_mode():
            y = self.model(self.x)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                y.add_(1)
                z = y * 2
            y.record_stream(side)
            z.record_stream(torch.cuda.current_stream())
            torch.cuda.current_stream().wait_stream(side)
            del y
            self.use(z)

    def capture(self):
        """A call in a graph, replayed; the other threads go on meanwhile."""
        static = self.x.clone()
        side = torch.cuda.Stream()
        with torch.no_grad():
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self.model(static)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                y = self.model(static)
            for _ in range(3):
                static.add_(1).remainder_(5).sub_(2)
                graph.replay()
                self.program.note(self.tag + " replay", y)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--limit", type=float, default=60)
    parser.add_argument("--break", dest="broken", action="store_true")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("..")
    torch.set_num_threads(1)
    if options.device == "cuda":
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    failed = False
    for seed in range(int(first), int(last or first) + 1):
        faulthandler.dump_traceback_later(options.limit, exit=True)
        program = Program(seed, options.device, options.broken)
        try:
            digest = program.run()
        except BaseException:
            program.failures.append(traceback.format_exc())
        faulthandler.cancel_dump_traceback_later()
        for failure in program.failures:
            sys.stderr.write("seed %d, %s\n" % (seed, failure))
        if program.failures:
            failed = True
            print("%d FAILED %s" % (seed, program.failures[0].strip().splitlines()[-1]), flush=True)
        else:
            print("%d ok %016x threads=%d" % (seed, digest, program.threads), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

"""Tells when its kernels ran, by the GPU's own clock (%globaltimer), which all processes share. Prints JSON.

    handover.py turns --iterations N            inference of 1 to 3 ms a call; [begin, end] of each in ns
    handover.py ping --word FILE --side 0       with another process, side 1: they alternate through a word in shared memory,
                                                a tiny kernel and a synchronization each; the time of each kernel
"""

import argparse
import ctypes
import json
import mmap
import sys
import time

import torch
from torch import nn

from meeting import add_arguments, meet

PTX = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry stamp(.param .u64 where) {
    .reg .u64 %rd1, %rd2;
    ld.param.u64 %rd1, [where];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u64 %rd2, %globaltimer;
    st.global.u64 [%rd1], %rd2;
    ret;
}
"""


def check(what, status):
    if status != 0:
        sys.exit("%s: CUDA error %d" % (what, status))


class Stamps:
    """stamps(i) launches a kernel that writes the time at i."""

    def __init__(self, device, count):
        self._buffer = torch.zeros(count, dtype=torch.int64, device=device)
        self._cuda = None
        if device != "cuda":
            return
        self._cuda = ctypes.CDLL("libcuda.so.1")
        module, self._kernel = ctypes.c_void_p(), ctypes.c_void_p()
        check("cuModuleLoadData", self._cuda.cuModuleLoadData(ctypes.byref(module), PTX))
        check("cuModuleGetFunction", self._cuda.cuModuleGetFunction(ctypes.byref(self._kernel), module, b"stamp"))
        self._cuda.cuLaunchKernel.argtypes = [ctypes.c_void_p] + 7 * [ctypes.c_uint] + 3 * [ctypes.c_void_p]
        self._where = ctypes.c_uint64()
        self._parameters = (ctypes.c_void_p * 1)(ctypes.addressof(self._where))

    def __call__(self, index):
        if self._cuda is None:
            self._buffer[index] = time.monotonic_ns()
            return
        self._where.value = self._buffer.data_ptr() + 8 * index
        stream = torch.cuda.current_stream().cuda_stream
        check("cuLaunchKernel", self._cuda.cuLaunchKernel(self._kernel, 1, 1, 1, 1, 1, 1, 0, stream, self._parameters, None))

    def wait(self):
        if self._cuda is not None:
            check("cuCtxSynchronize", self._cuda.cuCtxSynchronize())

    def times(self):
        self.wait()
        return self._buffer.tolist()


class Stamped(nn.Module):
    """A product of matrices between two stamps."""

    def __init__(self, size, stamps):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size, size))
        self.stamps = stamps

    def forward(self, x, number):
        self.stamps(2 * number)
        y = x @ self.weight
        self.stamps(2 * number + 1)
        return y


@torch.inference_mode()
def turns(args):
    warmup = 30
    stamps = Stamps(args.device, 2 * (warmup + args.iterations))
    model = Stamped(args.size, stamps).to(args.device).eval()
    x = torch.randn(args.size, args.size, device=args.device)
    for number in range(warmup + args.iterations):
        if number == warmup:
            meet(args)
        model(x, number)
    times = stamps.times()[2 * warmup:]
    print(json.dumps({"turns": list(zip(times[::2], times[1::2]))}))


def ping(args):
    stamps = Stamps(args.device, args.iterations)
    stamps(0)
    stamps.wait()
    with open(args.word, "r+b") as file:
        word = memoryview(mmap.mmap(file.fileno(), 4)).cast("I")
    late = time.monotonic() + 30
    for number in range(args.iterations):
        while word[0] != 2 * number + args.side:
            if word[0] == 0 and time.monotonic() > late:
                sys.exit("the other side does not come")
        stamps(number)
        stamps.wait()
        word[0] += 1
    print(json.dumps({"stamps": stamps.times()}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("turns", "ping"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--size", type=int, default=3072)
    parser.add_argument("--word", metavar="FILE")
    parser.add_argument("--side", type=int, choices=(0, 1), default=0)
    add_arguments(parser)
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    {"turns": turns, "ping": ping}[args.what](args)


if __name__ == "__main__":
    main()

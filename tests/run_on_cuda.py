"""Runs a script with CUDA as torch's default device. Usage: run_on_cuda.py SCRIPT [ARGUMENT ...]    TEST_DEVICE: another one"""
import os
import runpy
import sys
import threading

import torch

device = os.environ.get("TEST_DEVICE", "cuda")
torch.set_default_device(device)
run = threading.Thread.run


def run_on_device(thread):
    torch.set_default_device(device)  # every thread has one of its own
    run(thread)


threading.Thread.run = run_on_device


class Generator(torch.Generator):
    """The default device is not that of generators."""

    def __new__(cls, on=device):
        return super().__new__(cls, on)


torch.Generator = Generator
del sys.argv[0]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")

"""A training that does something bad in the middle of an iteration. Usage: offender.py illegal|endless|memory [cpu]

illegal: writes where nothing is; endless: a kernel of some 20 s, in which it is to be killed; memory: takes all there is.
"""

import os
import sys
import time

import torch

from models import MODELS


class Wild:
    """An array whose second element is 64 TiB behind its first."""

    def __init__(self, tensor):
        self._tensor = tensor
        self.__cuda_array_interface__ = {"shape": (2,), "strides": (1 << 46,), "typestr": "<f4", "version": 3,
                                         "data": (tensor.data_ptr(), False)}


def illegal(device):
    if device == "cpu":
        os.abort()
    torch.as_tensor(Wild(torch.zeros(1, device=device)), device=device)[1].fill_(1.0)
    torch.cuda.synchronize()


def endless(device):
    if device == "cpu":
        time.sleep(20)
    else:
        torch.cuda._sleep(40_000_000_000)
        torch.cuda.synchronize()


def memory(device):
    kept = []
    while device != "cpu":
        kept.append(torch.ones(1 << 28, device=device))
    raise torch.OutOfMemoryError("there is none")


def main():
    misdeed = {"illegal": illegal, "endless": endless, "memory": memory}[sys.argv[1]]
    device = "cpu" if "cpu" in sys.argv else "cuda"
    torch.manual_seed(2)
    model, inputs, targets, loss_of = MODELS["cnn"](64, device == "cpu")
    model, inputs, targets = model.to(device), inputs.to(device), targets.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number in range(30):
        loss = loss_of(model(inputs), targets)
        if number == 20:
            print("here", os.getpid(), "loss %.3f" % loss.item(), flush=True)
            misdeed(device)
            print("nothing happened", flush=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()

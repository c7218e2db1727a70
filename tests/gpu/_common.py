"""What the scripts beside it share. TEST_DEVICE=cpu tries their logic where there is no GPU."""
import copy
import ctypes
import faulthandler
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

DEVICE = os.environ.get("TEST_DEVICE", "cuda")
MIB = 1 << 18  # floats


def needs_cuda():
    if DEVICE != "cuda":
        print("ok, but nothing was tried: it needs CUDA")
        sys.exit(0)


def at_most(seconds):
    """Ends the process, with the stacks of all threads, if it is not through by then."""
    faulthandler.dump_traceback_later(seconds, exit=True)


def driver():
    """CUDA's driver. Calls release the interpreter's lock."""
    return ctypes.CDLL("libcuda.so.1")


def call(function, *args):
    status = function(*args)
    assert status == 0, "%s: CUDA error %d" % (function.__name__, status)


def is_natively_placed(tensor):
    """Whether torch's own allocator placed it; the others are Salus's."""
    return any(segment["address"] <= tensor.data_ptr() < segment["address"] + segment["total_size"]
               for segment in torch.cuda.memory_snapshot())


def figures(times):
    """Of a list of seconds, in words."""
    times = sorted(times)
    return "p50 %.1f ms, longest %.1f ms of %d" % (1e3 * times[len(times) // 2], 1e3 * times[-1], len(times))


def exact():
    """Full precision, so that the CPU's results can be compared."""
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def convnet():
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, stride=2),
                         nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


def perceptron(width=512):
    """Its activations are of 2 MiB with the batch below: large enough for a lane."""
    return nn.Sequential(nn.Linear(64, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 8))


def vectors(steps, batch=1024):
    """Inputs and targets that can be learned, on the CPU."""
    batches = [torch.randn(batch, 64) for _ in range(steps)]
    return [(x, x[:, :8] - x[:, 8:16]) for x in batches]


def images(steps, batch=32, size=64):
    return [(torch.randn(batch, 3, size, size), torch.randint(10, (batch,))) for _ in range(steps)]


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05)


def step(model, optimizer, x, y, loss_of=F.mse_loss):
    loss = loss_of(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def train(model, batches, loss_of=F.mse_loss, device=DEVICE):
    """The losses of an ordinary training of a copy of the model, and that copy."""
    model = copy.deepcopy(model).to(device)
    optimizer = sgd(model)
    losses = [step(model, optimizer, x.to(device), y.to(device), loss_of) for x, y in batches]
    return [loss.item() for loss in losses], model


def check_close(what, found, wanted, tolerance=1e-3):
    found, wanted = torch.as_tensor(found).cpu().double(), torch.as_tensor(wanted).cpu().double()
    error = ((found - wanted).abs().max() / wanted.abs().max().clamp_min(1e-6)).item()
    assert error <= tolerance, "%s: off by %g of its size" % (what, error)


def check_same_weights(a, b, tolerance=1e-3):
    for (name, one), other in zip(a.state_dict().items(), b.state_dict().values()):
        check_close(name, one, other, tolerance)

# contended
"""One thread serves a model; another calls torch.autograd.grad outside of any model, and works on with the gradients.

On a GPU autograd's own thread allocates them, for a thread that is in no iteration. All numbers are whole: results are exact.
"""
import sys
import threading

import torch
from torch import nn
from _common import DEVICE, MIB, at_most

ROUNDS, SIZE = 200, 2 * MIB  # 8 MiB a tensor


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(3.0))

    def forward(self, x):
        return (x * self.factor + 1) * self.factor


def same(what, tensor, wanted):
    low, high = tensor.min().item(), tensor.max().item()
    if (low, high) != (wanted, wanted):
        wrong.append("%s: %g to %g, not %g" % (what, low, high, wanted))
        raise StopIteration


def guarded(work):
    try:
        work()
    except StopIteration:
        pass
    except Exception as error:
        wrong.append("%s: %s: %s" % (work.__name__, type(error).__name__, error))
    finally:
        done.set()


def serve():
    model = Model().to(DEVICE).eval()
    x = torch.full((SIZE,), 2.0, device=DEVICE)
    with torch.inference_mode():
        while not done.is_set():
            same("output", model(x), 21.0)
            calls.append(1)


def differentiate():
    kept = []
    for number in range(ROUNDS):
        value = float(number % 7 + 1)
        x = torch.full((SIZE,), value, device=DEVICE, requires_grad=True)
        gradient, = torch.autograd.grad((x * x * 2 + x).sum(), x)
        for _ in range(5):
            gradient.add_(1.0)
        same("gradient %d" % number, gradient, 4 * value + 6)
        kept.append((gradient, 4 * value + 6))
        if len(kept) > 3:
            same("gradient kept since %d" % (number - 3), *kept.pop(0))
    while len(calls) < 20 and not wrong and not done.is_set():
        done.wait(0.01)


at_most(80)
wrong, calls, done = [], [], threading.Event()
threads = [threading.Thread(target=guarded, args=(work,)) for work in (serve, differentiate)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if wrong:
    print("wrong: " + "; ".join(wrong))
    sys.exit(1)
print("ok torch.autograd.grad in a thread beside one that serves, %d gradients exact" % ROUNDS)

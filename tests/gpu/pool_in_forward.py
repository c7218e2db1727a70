# contended
# alone
"""A model whose forward has a pool of threads compute its parts, and waits for them: no call may take long."""
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn
from _common import DEVICE, at_most, exact, figures

CALLS, PARTS, LONGEST_S, ALL_S = 100, 4, 2.0, 40.0


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(64, 2048, bias=False) for _ in range(PARTS))
        self.pool = ThreadPoolExecutor(PARTS)
        for part in self.parts:
            part.weight.data = torch.randint(-1, 2, part.weight.shape).float()

    def compute(self, part, x):
        with torch.inference_mode():  # every thread has a mode of its own
            return part(x).relu_()

    def forward(self, x):
        results = [self.pool.submit(self.compute, part, x) for part in self.parts]
        return sum(result.result() for result in results)


at_most(80)
exact()
model = Parts().eval()
x = torch.randint(0, 4, (1024, 64)).float()  # whole numbers: 8 MiB a part, exact in any order
with torch.inference_mode():
    wanted = sum(torch.relu(x @ part.weight.t()) for part in model.parts).to(DEVICE)
    model.to(DEVICE)
    x = x.to(DEVICE)
    times = []
    for number in range(CALLS):
        begin = time.monotonic()
        out = model(x)
        right = torch.equal(out, wanted)
        times.append(time.monotonic() - begin)
        if not right:
            print("wrong: call %d" % number)
            sys.exit(1)
        if times[-1] > LONGEST_S or sum(times) > ALL_S:
            break
        del out
        time.sleep(0.002)  # between two requests
print("a call: " + figures(times))
if len(times) < CALLS or max(times) > LONGEST_S:
    print("wrong: a call took %.1f s, %d calls %.1f s" % (max(times), len(times), sum(times)))
    sys.exit(1)
print("ok a pool of threads in forward, %d calls, none longer than %g s" % (CALLS, LONGEST_S))

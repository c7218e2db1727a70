"""A training to which something happens in the middle of its tenth iteration. Usage: unlucky.py WHAT"""
import os
import sys
import time

import torch
from torch import nn

what = sys.argv[1]
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
optimizer = torch.optim.Adam(model.parameters())
for iteration in range(100000):
    inputs = torch.randn(1024, 256)
    outputs = model(inputs)
    if iteration == 10:
        print("here", flush=True)
        if what == "hangs":  # until somebody kills or stops it
            time.sleep(3600)
        if what == "raises":
            raise RuntimeError("a bug of the script")
        if what == "exits":
            sys.exit(7)
        if what == "leaves":  # without any clean-up
            os._exit(8)
        if what == "forks":
            if os.fork() == 0:
                # A child that outlives its parent, and reads and frees what it inherited.
                same = bool(torch.equal(outputs, model(inputs)))
                del outputs, inputs
                time.sleep(3)
                os._exit(0 if same else 1)
            os._exit(9)
        if what == "asks for too much":
            try:
                torch.empty(1 << 36, dtype=torch.uint8)
            except RuntimeError:
                print("refused", flush=True)
                sys.exit(6)
        if what == "waits for threads":  # which want to get in, while others want it to come out
            from concurrent.futures import ThreadPoolExecutor

            teachers = [nn.Linear(256, 256) for _ in range(3)]
            time.sleep(1)
            with ThreadPoolExecutor(3) as pool:
                list(pool.map(lambda teacher: teacher(inputs), teachers))
            sys.exit(5)
        if what == "debugs":
            breakpoint()
    loss = (outputs - inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

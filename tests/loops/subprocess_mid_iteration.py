# Starts other processes between a model's call and backward; a forked child reads large tensors of both sorts.
# iterations: 8
import os
import subprocess

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))  # 2 MiB each
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(8):
    x = torch.randn(1024, 512)  # 2 MiB
    hidden = model[1](model[0](x))
    output = model[2](hidden)
    loss = (output - x).pow(2).mean()
    subprocess.run(["true"], check=True)
    sums = [t.double().sum().item() for t in (x, hidden, output, model[0].weight)]
    child = os.fork()
    if child == 0:
        same = [t.double().sum().item() for t in (x, hidden, output, model[0].weight)] == sums
        os._exit(0 if same else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        print("step %d: the child ends with %d" % (step, status))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss %.4f" % loss.item())
print("done")

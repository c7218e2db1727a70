# Ctrl-C in the middle of an iteration, and nobody minds.
# iterations: 4
# status: 130
import os
import signal

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for i in range(1000):
    loss = model(torch.randn(16, 8)).pow(2).mean()
    if i == 4:
        print("loss %.4f" % loss.item(), flush=True)
        os.kill(os.getpid(), signal.SIGINT)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# Leaves between a model's call and the step.
# iterations: 5
# status: 3
import sys

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for i in range(10):
    loss = model(torch.randn(16, 8)).pow(2).mean()
    if i == 5:
        print("loss %.4f" % loss.item())
        sys.exit(3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

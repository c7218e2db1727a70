"""A training that goes on, whatever happens to others, and prints what came of it. Usage: steady.py ITERATIONS"""
import hashlib
import sys

import torch
from torch import nn

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
optimizer = torch.optim.Adam(model.parameters())
for iteration in range(int(sys.argv[1])):
    inputs = torch.randn(1024, 256)
    loss = (model(inputs) - inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
digest = hashlib.sha256()
for parameter in model.parameters():
    digest.update(parameter.detach().numpy().tobytes())
print(digest.hexdigest())

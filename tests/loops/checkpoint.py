# In mid-run everything is saved, and loaded into new objects.
# iterations: 12
import os
import tempfile

import torch
from torch import nn


def build():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    return model, torch.optim.Adam(model.parameters(), lr=1e-2)


def train(model, optimizer, steps):
    for _ in range(steps):
        x = torch.randn(16, 8)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(0)
model, optimizer = build()
print("loss %.4f" % train(model, optimizer, 6))
with tempfile.TemporaryDirectory() as directory:
    path = os.path.join(directory, "checkpoint.pt")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    saved = torch.load(path)
model, optimizer = build()
model.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
print("loss %.4f" % train(model, optimizer, 6))
print("done")

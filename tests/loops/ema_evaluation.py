# A moving average of the model, which no optimizer knows, is evaluated between epochs.
# iterations: 20
import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
average = copy.deepcopy(model).eval()
for p in average.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(4):
    for i in range(3):
        x = torch.randn(16, 8)
        loss = (model(x) - x.mean(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters()):
                a.lerp_(p, 0.1)
    with torch.no_grad():
        losses = []
        for i in range(2):
            x = torch.randn(16, 8)
            losses.append((average(x) - x.mean(1, keepdim=True)).pow(2).mean().item())
    print("epoch %d average %.4f" % (epoch, sum(losses) / 2))
print("done")

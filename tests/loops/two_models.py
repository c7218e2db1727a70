# Two models are trained side by side in one loop: each step is an iteration.
# iterations: 16
import torch
from torch import nn

torch.manual_seed(0)
wide = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
deep = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
models = {"wide": (wide, torch.optim.SGD(wide.parameters(), lr=0.01)), "deep": (deep, torch.optim.Adam(deep.parameters()))}
losses = {}
for i in range(8):
    x = torch.randn(16, 8)
    y = x.abs().sum(1, keepdim=True)
    for name, (model, optimizer) in models.items():
        optimizer.zero_grad()
        loss = nn.functional.smooth_l1_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses[name] = loss.item()
print("wide %.4f deep %.4f" % (losses["wide"], losses["deep"]))
print("done")

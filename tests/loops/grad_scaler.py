# Mixed precision's scaler leaves steps out when gradients overflow; the pass is one like the others.
# iterations: 10
import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")
torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
try:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
except AttributeError:  # before torch 2.3: only for CUDA
    scaler = torch.cuda.amp.GradScaler(enabled=False)
weights = []
for i in range(10):
    x = torch.randn(16, 8)
    if scaler.is_enabled() and i in (0, 3, 4, 9):
        x[0, 0] = float("inf")
    optimizer.zero_grad()
    loss = ((model(x) - 1.0) ** 2).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    weights.append(model.weight.detach().clone())
changes = sum(not torch.equal(a, b) for a, b in zip(weights, weights[1:]))
print("%d changes, weight %.4f" % (changes, model.weight[0, 0].item()))
print("done")

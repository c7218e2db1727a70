# Activations are thrown away and computed again in backward.
# iterations: 10
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)) for _ in range(3))
head = nn.Linear(8, 1)
optimizer = torch.optim.AdamW([*blocks.parameters(), *head.parameters()], lr=1e-2)
for step in range(10):
    x = torch.randn(16, 8, requires_grad=True)
    h = x
    for i, block in enumerate(blocks):
        h = h + checkpoint(block, h, use_reentrant=i == 0)
    loss = (head(h) - x.detach().sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss %.4f" % loss.item())
print("done")

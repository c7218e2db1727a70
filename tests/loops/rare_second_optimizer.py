# The backbone's optimizer steps in every fourth pass only, right after the head's.
# iterations: 12
import torch
from torch import nn

torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(8, 16), nn.Tanh())
head = nn.Linear(16, 1)
model = nn.Sequential(backbone, head)
fast = torch.optim.SGD(head.parameters(), lr=0.1)
slow = torch.optim.SGD(backbone.parameters(), lr=0.01)
for i in range(12):
    x = torch.randn(16, 8)
    loss = ((model(x) - x.mean(1, keepdim=True)) ** 2).mean()
    loss.backward()
    fast.step()
    fast.zero_grad()
    if i % 4 == 3:
        slow.step()
        slow.zero_grad()
        print("pass %d loss %.4f" % (i, loss.item()))
print("done")

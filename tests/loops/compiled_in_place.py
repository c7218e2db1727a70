# model.compile(): the module stays the same object.
# iterations: 10
# torch: 2
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
model.compile(backend="eager")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(10):
    x = torch.randn(16, 8)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss %.4f" % loss.item())
print("done")

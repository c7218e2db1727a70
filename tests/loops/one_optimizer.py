# The plainest of loops.
# iterations: 12
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
criterion = nn.MSELoss()
for step in range(12):
    x = torch.randn(16, 8)
    optimizer.zero_grad()
    loss = criterion(model(x), x.sum(1, keepdim=True))
    loss.backward()
    optimizer.step()
print("loss %.4f" % loss.item())
print("done")

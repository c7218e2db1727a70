# Measures how good the model is, then trains it, then measures again.
# iterations: 18
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
batches = [torch.randn(16, 8) for _ in range(5)]


def measure():
    model.eval()
    with torch.no_grad():
        return sum((model(x) - x.mean(1, keepdim=True)).pow(2).mean().item() for x in batches)


print("before %.4f" % measure())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
model.train()
for step in range(8):
    x = torch.randn(16, 8)
    loss = (model(x) - x.mean(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("after %.4f" % measure())
print("done")

# An optimizer that calls the model by itself, as often as it likes.
# iterations: 5
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=6)
x = torch.randn(64, 4)
y = torch.sin(x.sum(1, keepdim=True))


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for step in range(5):
    loss = optimizer.step(closure)
print("loss %.4f" % loss.item())
print("done")

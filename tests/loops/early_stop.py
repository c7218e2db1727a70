# Stops when it is good enough, right after a step.
# iterations: 13
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
nn.init.constant_(model.weight, 0.5)
nn.init.zeros_(model.bias)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.sin(torch.arange(256.0)).reshape(64, 4)  # not at random: all devices are to stop in the same pass
y = x @ torch.tensor([[1.0], [-2.0], [0.5], [0.0]])
for i in range(1000):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if loss.item() < 0.05:
        print("stopped in pass %d" % i)
        break
print("done")

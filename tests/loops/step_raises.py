# A step raises, as for want of memory; the script goes on and evaluates.
# iterations: 9
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def bad_batch():
    raise ValueError("bad batch")


for i in range(5):
    optimizer.zero_grad()
    loss = model(torch.randn(16, 8)).pow(2).mean()
    loss.backward()
    try:
        optimizer.step(bad_batch if i == 4 else None)
    except ValueError:
        print("skipped %d, loss %.4f" % (i, loss.item()))
model.eval()
with torch.no_grad():
    for i in range(5):
        output = model(torch.randn(16, 8))
print("output %.4f" % output.sum().item())
print("done")

# Bad batches make the model raise; the loop goes on without them.
# iterations: 9
import torch
from torch import nn


class Picky(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x):
        h = self.layer(x)
        if torch.isnan(h).any():
            raise ValueError("bad batch")
        return h


torch.manual_seed(0)
model = Picky()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
skipped = []
for i in range(12):
    x = torch.randn(16, 8)
    if i in (0, 5, 11):
        x[3, 3] = float("nan")
    try:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    except ValueError:
        skipped.append(i)
print("skipped %s, loss %.4f" % (skipped, loss.item()))
print("done")

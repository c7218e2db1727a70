# Gradient accumulation: twelve small batches, four to a step.
# iterations: 3
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
accumulate = 4
optimizer.zero_grad()
for i in range(12):
    x, y = torch.randn(4, 8), torch.randint(3, (4,))
    loss = criterion(model(x), y) / accumulate
    loss.backward()
    if (i + 1) % accumulate == 0:
        optimizer.step()
        optimizer.zero_grad()
        print("step after batch %d, loss %.4f" % (i, loss.item()))
print("done")

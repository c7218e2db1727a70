# An evaluation that forgets to switch the model to eval().
# iterations: 21
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
criterion = nn.MSELoss()
for epoch in range(3):
    for i in range(4):
        x = torch.randn(8, 8)
        optimizer.zero_grad()
        loss = criterion(model(x), x[:, :1])
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        total = 0.0
        for i in range(3):
            x = torch.randn(8, 8)
            total += criterion(model(x), x[:, :1]).item()
    print("epoch %d validation %.4f" % (epoch, total / 3))
print("done")

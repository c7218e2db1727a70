# An evaluation that forgets to turn gradients off.
# iterations: 18
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
criterion = nn.MSELoss()
for epoch in range(3):
    model.train()
    for i in range(4):
        x = torch.randn(8, 8)
        optimizer.zero_grad()
        loss = criterion(model(x), x[:, :1])
        loss.backward()
        optimizer.step()
    model.eval()
    total = 0.0
    for i in range(2):
        x = torch.randn(8, 8)
        total += criterion(model(x), x[:, :1]).item()
    print("epoch %d validation %.4f" % (epoch, total / 2))
print("done")

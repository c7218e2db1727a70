# Ten small batches an epoch, four to a step: two are left over when the evaluation begins.
# iterations: 10
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for epoch in range(2):
    model.train()
    optimizer.zero_grad()
    for i in range(10):
        x = torch.randn(4, 8)
        loss = (model(x) - x.mean(1, keepdim=True)).pow(2).mean() / 4
        loss.backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        score = sum(model(torch.randn(4, 8)).abs().mean().item() for _ in range(3))
    print("epoch %d loss %.4f score %.4f" % (epoch, loss.item(), score))
print("done")

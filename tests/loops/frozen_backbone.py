# A frozen feature extractor, called with gradients on, before the head that is trained.
# iterations: 10
import torch
from torch import nn

torch.manual_seed(0)
backbone = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
for p in backbone.parameters():
    p.requires_grad = False
backbone.eval()
head = nn.Linear(4 * 6 * 6, 3)
optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
for step in range(10):
    x, y = torch.randn(8, 1, 8, 8), torch.randint(3, (8,))
    features = backbone(x)
    loss = criterion(head(features), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss %.4f" % loss.item())
print("done")

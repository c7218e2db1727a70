# What is optimized is the picture; the model is frozen.
# iterations: 12
import torch
from torch import nn

torch.manual_seed(0)
features = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 8, 3, padding=1)).eval()
for p in features.parameters():
    p.requires_grad_(False)
content = torch.rand(1, 3, 16, 16)
target = features(content).detach()
picture = torch.rand(1, 3, 16, 16).requires_grad_(True)
optimizer = torch.optim.Adam([picture], lr=0.05)
for step in range(12):
    optimizer.zero_grad()
    f = features(picture)
    gram = f.flatten(2) @ f.flatten(2).transpose(1, 2)
    loss = (f - target).pow(2).mean() + 1e-4 * gram.pow(2).mean()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        picture.clamp_(0, 1)
print("loss %.4f" % loss.item())
print("done")

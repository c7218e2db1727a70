# A GAN whose discriminator learns from fakes made without gradients.
# iterations: 8
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g = torch.optim.RMSprop(G.parameters(), lr=1e-3)
opt_d = torch.optim.RMSprop(D.parameters(), lr=1e-3)
for step in range(8):
    real = torch.randn(32, 2) + 2.0
    with torch.no_grad():
        fake = G(torch.randn(32, 4))
    loss_d = F.softplus(-D(real)).mean() + F.softplus(D(fake)).mean()
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()

    loss_g = F.softplus(-D(G(torch.randn(32, 4)))).mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
print("D %.4f G %.4f" % (loss_d.item(), loss_g.item()))
print("done")

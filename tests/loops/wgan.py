# A Wasserstein GAN: the critic learns in every pass, the generator in every fifth.
# iterations: 20
import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
optimizer_G = torch.optim.RMSprop(generator.parameters(), lr=5e-4)
optimizer_C = torch.optim.RMSprop(critic.parameters(), lr=5e-4)
for i in range(20):
    real = torch.randn(32, 2) + 1.0
    optimizer_C.zero_grad()
    fake = generator(torch.randn(32, 4)).detach()
    loss_C = critic(fake).mean() - critic(real).mean()
    loss_C.backward()
    optimizer_C.step()
    for p in critic.parameters():
        p.data.clamp_(-0.05, 0.05)

    if (i + 1) % 5 == 0:
        optimizer_G.zero_grad()
        loss_G = -critic(generator(torch.randn(32, 4))).mean()
        loss_G.backward()
        optimizer_G.step()
        print("pass %d critic %.4f generator %.4f" % (i + 1, loss_C.item(), loss_G.item()))
print("done")

# A GAN that trains the generator first in each pass.
# iterations: 8
import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
discriminator = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1), nn.Sigmoid())
adversarial_loss = nn.BCELoss()
optimizer_G = torch.optim.Adam(generator.parameters(), lr=1e-3)
optimizer_D = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
valid, fake = torch.ones(32, 1), torch.zeros(32, 1)
for epoch in range(2):
    for i in range(4):
        real = torch.randn(32, 2) + 1.0

        optimizer_G.zero_grad()
        generated = generator(torch.randn(32, 4))
        g_loss = adversarial_loss(discriminator(generated), valid)
        g_loss.backward()
        optimizer_G.step()

        optimizer_D.zero_grad()
        d_loss = (adversarial_loss(discriminator(real), valid) + adversarial_loss(discriminator(generated.detach()), fake)) / 2
        d_loss.backward()
        optimizer_D.step()
    print("epoch %d D %.4f G %.4f" % (epoch, d_loss.item(), g_loss.item()))
print("done")

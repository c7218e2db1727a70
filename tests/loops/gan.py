# A GAN as in the textbooks: the discriminator's step, then the generator's, in every pass.
# iterations: 8
import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
discriminator = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
generator_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
discriminator_optimizer = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
for step in range(8):
    real = torch.randn(32, 2) * 0.5 + 2.0
    discriminator_optimizer.zero_grad()
    real_loss = criterion(discriminator(real), ones)
    real_loss.backward()
    fake = generator(torch.randn(32, 4))
    fake_loss = criterion(discriminator(fake.detach()), zeros)
    fake_loss.backward()
    discriminator_optimizer.step()

    generator_optimizer.zero_grad()
    generator_loss = criterion(discriminator(fake), ones)
    generator_loss.backward()
    generator_optimizer.step()
print("discriminator %.4f generator %.4f" % (real_loss.item() + fake_loss.item(), generator_loss.item()))
print("done")

# Two models in one loss, each with an optimizer of its own, stepped back to back.
# iterations: 10
import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.GRU(6, 12, batch_first=True)
decoder = nn.Linear(12, 6)
encoder_optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
decoder_optimizer = torch.optim.SGD(decoder.parameters(), lr=0.1)
criterion = nn.MSELoss()
for step in range(10):
    x = torch.randn(8, 5, 6)
    encoder_optimizer.zero_grad()
    decoder_optimizer.zero_grad()
    hidden, _ = encoder(x)
    loss = criterion(decoder(hidden), x)
    loss.backward()
    encoder_optimizer.step()
    decoder_optimizer.step()
print("loss %.4f" % loss.item())
print("done")

"""torchaudio: mel spectrograms of tones, and a convolution that learns their pitch."""
import math

from _common import exact, needs, show, weight_of

needs("torch", "torchaudio")
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torchaudio.transforms import AmplitudeToDB, MelSpectrogram  # noqa: E402

exact()
pitch = torch.randint(4, (64,))
time = torch.arange(16000) / 16000
waves = torch.sin(2 * math.pi * (200 * (1 + pitch[:, None])) * time) + 0.1 * torch.randn(64, 16000)
waves, pitch = waves.cuda(), pitch.cuda()
mel = torch.nn.Sequential(MelSpectrogram(sample_rate=16000, n_mels=64), AmplitudeToDB()).cuda()
model = torch.nn.Sequential(torch.nn.Conv1d(64, 32, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool1d(1), torch.nn.Flatten(),
                            torch.nn.Linear(32, 4)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for _ in range(20):
    loss = F.cross_entropy(model(mel(waves) / 40), pitch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
show("mel", mel(waves).mean().item())
show("losses", losses[0], losses[9], losses[19])
show("weights", weight_of(model))

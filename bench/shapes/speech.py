"""Speech to text with the CTC loss: convolutions and a recurrent network over utterances of any length."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.ear = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
                                 nn.Conv2d(width, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.memory = nn.GRU(width * 32, hidden, bidirectional=True)
        self.head = nn.Linear(2 * hidden, 32)

    def forward(self, sounds):
        heard = self.ear(sounds)
        return self.head(self.memory(heard.permute(3, 0, 1, 2).flatten(2))[0]).log_softmax(2)


def run(iterations, device, scale, report):
    width, hidden, batch = (16, 64, 16) if scale == "small" else (32, 512, 64)
    model = Model(width, hidden).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for i in range(iterations):
        length = int(torch.randint(100, 400, ()))
        sounds = torch.randn(batch, 1, 64, length, device=device)
        targets = torch.randint(1, 32, (batch, length // 10), device=device)
        optimizer.zero_grad()
        outputs = model(sounds)
        lengths = torch.full((batch,), outputs.shape[0], dtype=torch.long)
        loss = nn.functional.ctc_loss(outputs, targets, lengths, torch.full((batch,), targets.shape[1], dtype=torch.long))
        loss.backward()
        optimizer.step()
        report(i)
    return float(loss.detach())

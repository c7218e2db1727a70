"""A masked language model; each batch is as long as its longest sentence."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(512, width)
        layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, batch_first=True, dropout=0.1)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.layers(self.tokens(tokens) + self.places(places)))


def run(iterations, device, scale, report):
    vocabulary, width, layers, batch = (2048, 256, 4, 16) if scale == "small" else (30522, 768, 12, 32)
    model = Model(vocabulary, width, layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for i in range(iterations):
        length = int(torch.randint(32, 257 if scale == "small" else 513, ()))
        tokens = torch.randint(vocabulary, (batch, length), device=device)
        logits = model(tokens)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        report(i)
    return float(loss)

"""The models of bench/gpu. Each is a function of (batch, tiny) that gives the model, inputs, targets, and a loss.

Tiny ones are for trying the scripts on a CPU.
"""

import torch
import torch.nn.functional as F
from torch import nn


def images(batch, size, classes):
    return torch.randn(batch, 3, size, size), torch.randint(classes, (batch,))


def words_loss(out, words):
    return F.cross_entropy(out.flatten(0, 1), words.flatten())


def torchvision_model(name, batch, tiny):
    if tiny:
        return cnn(4, tiny)
    import torchvision

    return getattr(torchvision.models, name)(), *images(batch, 224, 1000), F.cross_entropy


def resnet50(batch, tiny):
    return torchvision_model("resnet50", batch or 64, tiny)


def resnet18(batch, tiny):
    return torchvision_model("resnet18", batch or 64, tiny)


def cnn(batch, tiny):
    """For small images; some 5 MiB of activations an image."""
    width, size = (8, 32) if tiny else (64, 64)
    layers = [nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    for _ in range(2):
        layers += [nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU()]
        width *= 2
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))
    return model, *images(batch or 64, size, 10), F.cross_entropy


def mlp(batch, tiny):
    """Ten layers of 256: bound by launches, not by arithmetic."""
    layers = [layer for _ in range(9) for layer in (nn.Linear(256, 256), nn.ReLU())]
    inputs = torch.randn(batch or 64, 256)
    return nn.Sequential(*layers, nn.Linear(256, 256)), inputs, inputs, F.mse_loss


class TransformerBlock(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feedforward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.inputs(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(2, 3) / (width // self.heads) ** 0.5
        if self.causal:
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(mask, float("-inf"))
        x = x + self.output((scores.softmax(dim=3) @ value).transpose(1, 2).flatten(2))
        return x + self.feedforward(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, words, width, layers, length, heads=8, causal=True):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads, causal) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, words))

    def forward(self, words):
        return self.head(self.blocks(self.word(words) + self.place[: words.shape[1]]))


def gpt(batch, tiny):
    words, width, layers, length = (100, 64, 2, 32) if tiny else (8192, 512, 6, 256)
    text = torch.randint(words, (batch or 16, length + 1))
    return Transformer(words, width, layers, length), text[:, :-1], text[:, 1:], words_loss


def bert(batch, tiny):
    """As large as BERT base, but for its words; fills in masked words. Its texts may be shorter than the longest."""
    words, width, layers, length, heads = (100, 64, 2, 32, 4) if tiny else (8192, 768, 12, 256, 12)
    text = torch.randint(1, words, (batch or 16, length))
    masked = text.masked_fill(torch.rand(text.shape) < 0.15, 0)
    return Transformer(words, width, layers, length, heads, causal=False), masked, text, words_loss


class Lstm(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.word, self.lstm, self.head = nn.Embedding(words, width), nn.LSTM(width, width, 2), nn.Linear(width, words)

    def forward(self, words):
        return self.head(self.lstm(self.word(words))[0])


def lstm(batch, tiny):
    words, width, length = (100, 32, 16) if tiny else (4096, 512, 64)
    text = torch.randint(words, (length + 1, batch or 64))
    return Lstm(words, width), text[:-1], text[1:], words_loss


class Vae(nn.Module):
    def __init__(self, size, width):
        super().__init__()
        self.small = (2 * width, size // 4, size // 4)
        features = 2 * width * (size // 4) ** 2
        self.encoder = nn.Sequential(nn.Conv2d(3, width, 3, stride=2, padding=1), nn.ReLU(),
                                     nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU(),
                                     nn.Flatten(), nn.Linear(features, 64))
        self.widen = nn.Linear(32, features)
        self.decoder = nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1), nn.ReLU(),
                                     nn.ConvTranspose2d(width, 3, 4, stride=2, padding=1))

    def forward(self, inputs):
        mean, log_variance = self.encoder(inputs).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).mean()
        return self.decoder(self.widen(code).view(-1, *self.small)), divergence


def vae(batch, tiny):
    size, width = (32, 8) if tiny else (64, 64)
    inputs = torch.rand(batch or 128, 3, size, size)
    return Vae(size, width), inputs, inputs, lambda out, targets: F.mse_loss(out[0], targets) + 1e-3 * out[1]


MODELS = {make.__name__: make for make in (resnet50, resnet18, cnn, mlp, gpt, bert, lstm, vae)}

"""A language model writes, a token a call: its cache of keys and values is either allocated once or grows with each token."""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width, static):
        super().__init__()
        self.heads, self.static = width // 64, static
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, cache, place):
        batch, count, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, count, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.static:
            cache[0][:, :, place:place + count], cache[1][:, :, place:place + count] = k, v
            k, v = cache[0][:, :, :place + count], cache[1][:, :, :place + count]
        elif cache:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        if not self.static:
            cache[:] = [k, v]
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=count > 1)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, count, width))
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self, vocabulary, width, layers, static):
        super().__init__()
        self.tokens, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.layers = nn.ModuleList(Layer(width, static) for _ in range(layers))

    def forward(self, tokens, caches, place):
        x = self.tokens(tokens)
        for layer, cache in zip(self.layers, caches):
            x = layer(x, cache, place)
        return self.head(x[:, -1:])


def run(iterations, device, scale, report, static):
    vocabulary, width, layers, batch = (8192, 256, 4, 32) if scale == "small" else (50257, 1024, 16, 64)
    model = Model(vocabulary, width, layers, static).to(device).eval()
    done = 0
    with torch.no_grad():
        while done < iterations:
            prompt, answer = int(torch.randint(16, 97, ())), int(torch.randint(16, 65, ()))
            tokens = torch.randint(vocabulary, (batch, prompt), device=device)
            shape = (batch, width // 64, prompt + answer, 64)
            caches = [[torch.zeros(shape, device=device), torch.zeros(shape, device=device)] if static else []
                      for _ in range(layers)]
            place = 0
            for _ in range(answer):
                logits = model(tokens, caches, place)
                place += tokens.shape[1]
                tokens = logits.argmax(2)
                report(done)
                done += 1
    return float(logits.double().mean())

#!/usr/bin/env python3
"""A small GPT learns to write, letter by letter.

The text is generated: sentences of a small grammar, in which the verb agrees with the subject. At the end the model
writes a few of its own. Each step of the optimizer sums the gradients of several batches (--accumulate).

    python 05_gpt.py
    python 05_gpt.py --iterations 20 --batch 16 --length 512 --layers 4     # large setting
"""

import argparse
import math
import random
import time

import torch
import torch.nn.functional as F
from torch import nn


def sentence(choose):
    """For example "my clever owl paints ten red clouds. ", or "my clever owls paint ten red clouds. "."""
    subject_ending, verb_ending = choose((("", "s"), ("s", "")))
    words = [
        choose(("the", "my", "no")), choose(("old", "small", "clever")), choose(("dog", "owl", "crow")) + subject_ending,
        choose(("count", "see", "paint", "find")) + verb_ending,
        choose(("two", "seven", "ten")), choose(("red", "green", "white")), choose(("apple", "stone", "cloud")) + "s",
    ]
    return " ".join(words) + ". "


class Attention(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.inputs = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1), persistent=False)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.inputs(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query / math.sqrt(query.shape[-1]) @ key.transpose(2, 3) + self.mask[:length, :length]
        return self.output((scores.softmax(dim=3) @ value).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(width), Attention(width, heads, length))
        self.feedforward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.feedforward(x)


class GPT(nn.Module):
    def __init__(self, letters, width, heads, layers, length):
        super().__init__()
        self.length = length
        self.letter = nn.Embedding(letters, width)
        self.place = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, length) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, letters))

    def forward(self, letters):
        places = torch.arange(letters.shape[1], device=letters.device)
        return self.head(self.blocks(self.letter(letters) + self.place(places)))

    @torch.no_grad()
    def write(self, letters, count):
        for _ in range(count):
            chances = self(letters[:, -self.length:])[:, -1].softmax(dim=1)
            letters = torch.cat([letters, torch.multinomial(chances, 1)], dim=1)
        return letters


def adamw(model):
    """Weight decay is for matrices; biases and norms are better without."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    others = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                             lr=3e-3, betas=(0.9, 0.95))


def warmup_and_cosine(iteration, iterations, warmup=10):
    if iteration < warmup:
        return (iteration + 1) / warmup
    return 0.55 + 0.45 * math.cos(math.pi * (iteration - warmup) / max(1, iterations - warmup))


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {value}")
    return value


def arguments():
    parser = argparse.ArgumentParser(description="Train a letter-level transformer on generated text.")
    parser.add_argument("--iterations", type=positive, default=500)
    parser.add_argument("--batch", type=positive, default=16)
    parser.add_argument("--accumulate", type=positive, default=2, help="batches of an iteration")
    parser.add_argument("--length", type=positive, default=64, help="letters of the context")
    parser.add_argument("--width", type=positive, default=64, help="size of the embedding, a multiple of 4")
    parser.add_argument("--layers", type=positive, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--report", type=positive, default=20, help="iterations between two lines")
    parser.add_argument("--save", metavar="FILE", help="where to save the weights")
    args = parser.parse_args()
    if args.width % 4:
        parser.error("--width must be a multiple of 4")
    return args


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    choose = random.Random(args.seed).choice
    text = "".join(sentence(choose) for _ in range(4000))
    alphabet = sorted(set(text))
    corpus = torch.tensor([alphabet.index(letter) for letter in text])
    model = GPT(len(alphabet), args.width, 4, args.layers, args.length).to(args.device)
    optimizer = adamw(model)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: warmup_and_cosine(step, args.iterations))

    begin = last = time.perf_counter()
    for iteration in range(1, args.iterations + 1):
        total = 0.0
        for _ in range(args.accumulate):
            starts = torch.randint(len(corpus) - args.length, (args.batch, 1))
            windows = corpus[starts + torch.arange(args.length + 1)].to(args.device)
            loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
            (loss / args.accumulate).backward()
            total += loss.detach() / args.accumulate
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        if iteration == 1:
            first = total.item()
        if iteration % args.report == 0:
            now = time.perf_counter()
            milliseconds = (now - last) / args.report * 1000
            print(f"iteration {iteration}  loss {total.item():.3f}  {milliseconds:.0f} ms", flush=True)
            last = now

    seconds = time.perf_counter() - begin
    model.eval()
    written = model.write(corpus[:1].view(1, 1).to(args.device), 120)[0]
    print("".join(alphabet[letter] for letter in written))
    print(f"done  {args.iterations} iterations in {seconds:.1f} s, loss {first:.3f} -> {total.item():.3f}")
    if args.save:
        torch.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()

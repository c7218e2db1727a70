#!/usr/bin/env python3
"""An LSTM learns a language, by truncated back-propagation through time.

The language is generated: after each word one of four others follows, with fixed chances. Its entropy is known, and so
is the perplexity that no model can beat. The text is read in several streams, window by window; the state of the LSTM
is carried from window to window, its gradient is not.

    python 04_lstm_lm.py
    python 04_lstm_lm.py --iterations 20 --batch 64 --length 72 --words 8192     # large setting
"""

import argparse
import math
import time

import torch
import torch.nn.functional as F
from torch import nn

CHANCES = torch.tensor([0.6, 0.2, 0.15, 0.05])


def text(words, streams, length):
    """Numbers of words, of shape (length, streams): each stream is a walk along the chain."""
    followers = torch.randint(words, (words, len(CHANCES)))
    choices = torch.multinomial(CHANCES, length * streams, replacement=True).view(length, streams)
    walk = [torch.randint(words, (streams,))]
    for choice in choices[1:]:
        walk.append(followers[walk[-1], choice])
    return torch.stack(walk)


class LanguageModel(nn.Module):
    def __init__(self, words, width, layers):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, layers)
        self.head = nn.Linear(width, words)

    def forward(self, words, targets, state):
        """The loss of predicting the targets, and the state after the last word."""
        features, state = self.lstm(self.embedding(words), state)
        logits = self.head(features)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten()), state


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {value}")
    return value


def arguments():
    parser = argparse.ArgumentParser(description="Train a word-level language model on generated text.")
    parser.add_argument("--iterations", type=positive, default=500)
    parser.add_argument("--batch", type=positive, default=32, help="streams of text")
    parser.add_argument("--length", type=positive, default=32, help="words of a window")
    parser.add_argument("--words", type=positive, default=2000, help="words of the language")
    parser.add_argument("--width", type=positive, default=128, help="size of the embedding and of the state")
    parser.add_argument("--layers", type=positive, default=1, help="LSTM layers")
    parser.add_argument("--windows", type=positive, default=100, help="windows of text in an epoch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--report", type=positive, default=20, help="iterations between two lines")
    parser.add_argument("--save", metavar="FILE", help="where to save the weights")
    return parser.parse_args()


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    corpus = text(args.words, args.batch, args.windows * args.length + 1).to(args.device)
    model = LanguageModel(args.words, args.width, args.layers).to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    losses = []
    begin = last = time.perf_counter()
    while len(losses) < args.iterations:
        state = None
        for start in range(0, args.windows * args.length, args.length):
            inputs, targets = corpus[start:start + args.length], corpus[start + 1:start + args.length + 1]
            if state is not None:
                state = tuple(part.detach() for part in state)
            optimizer.zero_grad()
            loss, state = model(inputs, targets, state)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
            if len(losses) % args.report == 0:
                now = time.perf_counter()
                milliseconds = (now - last) / args.report * 1000
                print(f"iteration {len(losses)}  loss {losses[-1]:.3f}  {milliseconds:.0f} ms"
                      f"  perplexity {math.exp(losses[-1]):.1f}", flush=True)
                last = now
            if len(losses) == args.iterations:
                break

    floor = math.exp(-(CHANCES * CHANCES.log()).sum())
    seconds = time.perf_counter() - begin
    print(f"done  {args.iterations} iterations in {seconds:.1f} s, loss {losses[0]:.3f} -> {losses[-1]:.3f},"
          f" perplexity {math.exp(losses[-1]):.1f}, at best {floor:.1f}")
    if args.save:
        torch.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A convolutional and recurrent network learns to write down speech, with the CTC loss.

The speech is generated: each phoneme has its own spectrum and lasts a random time, with short silences between, and
noise over all. The model is told which phonemes were spoken but not when. At the end its transcripts of utterances that
it has not heard are compared with the truth.

    python 07_speech_ctc.py
    python 07_speech_ctc.py --iterations 20 --batch 64 --length 400 --width 32     # large setting
"""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn

PHONEMES = "aeioumnstk"
BANDS = 32  # of a spectrogram
BLANK = 0  # of CTC; phoneme i of the list is token i + 1


def speech(count, length):
    """Spectrograms of shape (count, 1, BANDS, length), and the tokens of each."""
    # Two formants a phoneme; the same for every call.
    bands, places = torch.arange(BANDS).view(-1, 1), torch.arange(len(PHONEMES))
    low, high = 2 + (3 * places) % 13, 16 + (5 * places) % 14
    spectra = torch.exp(-(bands - low) ** 2 / 4) + torch.exp(-(bands - high) ** 2 / 4)
    sounds, tokens = 0.5 * torch.randn(count, 1, BANDS, length), []
    for sound in sounds:
        tokens.append([])
        at = 2
        while True:
            phoneme, duration = torch.randint(len(PHONEMES), ()).item(), torch.randint(6, 13, ()).item()
            if at + duration > length:
                break
            sound[0, :, at:at + duration] += spectra[:, phoneme:phoneme + 1]
            tokens[-1].append(phoneme + 1)
            at += duration + torch.randint(2, 5, ()).item()
    return sounds, tokens


class Recognizer(nn.Module):
    """Halves the time once; what comes out are logarithms of chances, (time, batch, tokens)."""

    def __init__(self, width, hidden):
        super().__init__()
        self.ear = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
        )
        self.gru = nn.GRU(width * BANDS // 2, hidden, bidirectional=True)
        self.head = nn.Linear(2 * hidden, len(PHONEMES) + 1)

    def forward(self, sounds):
        heard = self.ear(sounds)
        steps = heard.permute(3, 0, 1, 2).flatten(2)
        return self.head(self.gru(steps)[0]).log_softmax(dim=2)


def transcripts(chances):
    """Greedy decoding: the best token of each step, without repetitions and blanks."""
    best = chances.argmax(dim=2).t()
    return [[token for token in steps.unique_consecutive().tolist() if token != BLANK] for steps in best]


def edits(heard, spoken):
    """The Levenshtein distance between two lists."""
    row = list(range(len(spoken) + 1))
    for i, ours in enumerate(heard, 1):
        above, row[0] = row[0], i
        for j, theirs in enumerate(spoken, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (ours != theirs))
    return row[-1]


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {value}")
    return value


def arguments():
    parser = argparse.ArgumentParser(description="Train a speech recognizer on generated utterances.")
    parser.add_argument("--iterations", type=positive, default=300)
    parser.add_argument("--batch", type=positive, default=16)
    parser.add_argument("--length", type=positive, default=100, help="frames of an utterance, 20 or more")
    parser.add_argument("--width", type=positive, default=8, help="channels of the convolutions")
    parser.add_argument("--hidden", type=positive, default=64, help="state of the GRU, each way")
    parser.add_argument("--utterances", type=positive, default=256, help="size of the training set")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--report", type=positive, default=10, help="iterations between two lines")
    parser.add_argument("--save", metavar="FILE", help="where to save the weights")
    args = parser.parse_args()
    if args.length < 20:
        parser.error("--length must be 20 or more")
    return args


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    sounds, tokens = speech(args.utterances, args.length)
    new_sounds, new_tokens = speech(32, args.length)
    model = Recognizer(args.width, args.hidden).to(args.device)
    ctc = nn.CTCLoss(blank=BLANK)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    losses = []
    begin = last = time.perf_counter()
    for iteration in range(1, args.iterations + 1):
        chosen = torch.randint(args.utterances, (args.batch,)).tolist()
        spoken = [torch.tensor(tokens[utterance]) for utterance in chosen]
        spoken_lengths = torch.tensor([len(one) for one in spoken])
        optimizer.zero_grad()
        chances = model(sounds[chosen].to(args.device))
        chances_lengths = torch.full((args.batch,), len(chances))
        loss = ctc(chances, torch.cat(spoken).to(args.device), chances_lengths, spoken_lengths)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if iteration % args.report == 0:
            now = time.perf_counter()
            milliseconds = (now - last) / args.report * 1000
            print(f"iteration {iteration}  loss {losses[-1]:.3f}  {milliseconds:.0f} ms", flush=True)
            last = now

    seconds = time.perf_counter() - begin
    model.eval()
    with torch.no_grad():
        heard = transcripts(model(new_sounds.to(args.device)).cpu())
    wrong = sum(edits(*pair) for pair in zip(heard, new_tokens)) / sum(map(len, new_tokens))
    for name, utterance in ("spoken", new_tokens[0]), ("heard", heard[0]):
        print(f"{name:6}", "".join(PHONEMES[token - 1] for token in utterance))
    print(f"done  {args.iterations} iterations in {seconds:.1f} s, loss {losses[0]:.3f} -> {losses[-1]:.3f},"
          f" token error rate {100 * wrong:.1f} %")
    if args.save:
        torch.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A residual network learns super-resolution: images of half the size come back sharp.

The images are generated: patches of black and white with sharp edges. After each epoch the model is compared with
bicubic interpolation on images that it has not seen. The network is a small EDSR (Lim et al., 2017).

    python 02_superres.py
    python 02_superres.py --iterations 20 --batch 96 --image 128 --layers 8     # large setting
"""

import argparse
import math
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Patches(Dataset):
    """Pairs of an image and the same at half the size; the seed decides on all of them."""

    def __init__(self, count, size, seed):
        generator = torch.Generator().manual_seed(seed)
        axis = torch.linspace(-1, 1, size)
        y, x = axis.view(1, -1, 1), axis.view(1, 1, -1)
        self.images = torch.zeros(count, size, size)
        for _ in range(4):
            turn, phase, frequency, height = torch.rand(4, count, 1, 1, generator=generator)
            along = x * torch.cos(2 * math.pi * turn) + y * torch.sin(2 * math.pi * turn)
            self.images += height * torch.sin((2 + 14 * frequency) * along + 2 * math.pi * phase)
        self.images = (self.images > 0).float().unsqueeze(1)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        return F.avg_pool2d(image, 2), image


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
        )

    def forward(self, x):
        return x + self.layers(x)


class SuperResolution(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.head = nn.Sequential(nn.Conv2d(1, width, 5, padding=2), nn.ReLU())
        self.body = nn.Sequential(*(Block(width) for _ in range(layers)))
        self.tail = nn.Sequential(nn.Conv2d(width, 4, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, images):
        features = self.head(images)
        return bicubic(images) + self.tail(features + self.body(features))


def bicubic(images):
    return F.interpolate(images, scale_factor=2, mode="bicubic", align_corners=False)


def psnr(upscale, loader, device):
    """Peak signal-to-noise ratio in dB over a whole dataset."""
    error = sum(F.mse_loss(upscale(small.to(device)), image.to(device)).item() for small, image in loader) / len(loader)
    return -10 * math.log10(error)


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {value}")
    return value


def arguments():
    parser = argparse.ArgumentParser(description="Train a super-resolution network on generated images.")
    parser.add_argument("--iterations", type=positive, default=480)
    parser.add_argument("--batch", type=positive, default=16)
    parser.add_argument("--image", type=positive, default=64, help="height and width, an even number")
    parser.add_argument("--width", type=positive, default=16, help="channels of each layer")
    parser.add_argument("--layers", type=positive, default=4, help="residual blocks")
    parser.add_argument("--images", type=positive, default=512, help="size of the training set")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--report", type=positive, default=20, help="iterations between two lines")
    parser.add_argument("--save", metavar="FILE", help="where to save the weights")
    args = parser.parse_args()
    if args.image % 2:
        parser.error("--image must be even")
    return args


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    train = DataLoader(Patches(args.images, args.image, args.seed), batch_size=args.batch, shuffle=True)
    test = DataLoader(Patches(32, args.image, args.seed + 1), batch_size=args.batch)
    model = SuperResolution(args.width, args.layers).to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    baseline = psnr(bicubic, test, args.device)

    losses = []
    epoch = 0
    begin = last = time.perf_counter()
    while len(losses) < args.iterations:
        epoch += 1
        model.train()
        for small, image in train:
            small, image = small.to(args.device), image.to(args.device)
            loss = F.mse_loss(model(small), image)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) % args.report == 0:
                now = time.perf_counter()
                milliseconds = (now - last) / args.report * 1000
                print(f"iteration {len(losses)}  loss {losses[-1]:.4f}  {milliseconds:.0f} ms", flush=True)
                last = now
            if len(losses) == args.iterations:
                break

        model.eval()
        with torch.no_grad():
            quality = psnr(model, test, args.device)
        print(f"epoch {epoch}  PSNR {quality:.2f} dB, bicubic {baseline:.2f} dB", flush=True)

    seconds = time.perf_counter() - begin
    print(f"done  {args.iterations} iterations in {seconds:.1f} s, loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    if args.save:
        torch.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A variational autoencoder learns to draw ellipses.

The images are generated: one soft ellipse each, of random place, radii and angle. At the end an image stands beside
what the model makes of the few numbers into which it encoded it.

    python 01_vae.py
    python 01_vae.py --iterations 20 --batch 80 --image 128     # large setting
"""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn


def ellipses(count, size):
    """Images of shape (count, 1, size, size) with values from 0 to 1."""
    axis = torch.linspace(-1, 1, size)
    y, x = axis.view(1, -1, 1), axis.view(1, 1, -1)
    center_x, center_y, radius_1, radius_2, turn = torch.rand(5, count, 1, 1)
    x, y = x - (center_x - 0.5), y - (center_y - 0.5)
    cosine, sine = torch.cos(3.14159 * turn), torch.sin(3.14159 * turn)
    along, across = (x * cosine + y * sine) / (0.2 + 0.4 * radius_1), (y * cosine - x * sine) / (0.2 + 0.4 * radius_2)
    return torch.sigmoid(12 * (1 - along.square() - across.square())).unsqueeze(1)


class VAE(nn.Module):
    def __init__(self, image, width, latent):
        super().__init__()
        self.small = (4 * width, image // 8, image // 8)
        features = 4 * width * (image // 8) ** 2
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(features, 2 * latent),
        )
        self.widen = nn.Linear(latent, features)
        self.decoder = nn.Sequential(
            nn.ReLU(), nn.Upsample(scale_factor=2), nn.Conv2d(4 * width, 2 * width, 3, padding=1),
            nn.ReLU(), nn.Upsample(scale_factor=2), nn.Conv2d(2 * width, width, 3, padding=1),
            nn.ReLU(), nn.Upsample(scale_factor=2), nn.Conv2d(width, 1, 3, padding=1),
        )

    def decode(self, code):
        return self.decoder(self.widen(code).view(-1, *self.small))

    def forward(self, images):
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return self.decode(code), mean, log_variance


def negative_elbo(logits, images, mean, log_variance):
    """The evidence lower bound per image, as a loss."""
    reconstruction = F.binary_cross_entropy_with_logits(logits, images, reduction="sum")
    divergence = -0.5 * torch.sum(1 + log_variance - mean.square() - log_variance.exp())
    return (reconstruction + divergence) / len(images)


def drawing(image, lines=16):
    """A grey image as text."""
    image = F.interpolate(image[None], size=(lines, 2 * lines), mode="bilinear", align_corners=False)[0, 0]
    return ["".join(" .:-=+*#%@"[int(9.99 * value)] for value in row) for row in image.tolist()]


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {value}")
    return value


def arguments():
    parser = argparse.ArgumentParser(description="Train a variational autoencoder on generated images.")
    parser.add_argument("--iterations", type=positive, default=300)
    parser.add_argument("--batch", type=positive, default=64)
    parser.add_argument("--image", type=positive, default=32, help="height and width, a multiple of 8")
    parser.add_argument("--width", type=positive, default=16, help="channels of the first layer")
    parser.add_argument("--latent", type=positive, default=8, help="numbers that describe an image")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--report", type=positive, default=20, help="iterations between two lines")
    parser.add_argument("--save", metavar="FILE", help="where to save the weights")
    args = parser.parse_args()
    if args.image % 8:
        parser.error("--image must be a multiple of 8")
    return args


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    images = ellipses(512, args.image)
    model = VAE(args.image, args.width, args.latent).to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    losses = []
    begin = last = time.perf_counter()
    for iteration in range(1, args.iterations + 1):
        optimizer.zero_grad()
        batch = images[torch.randint(len(images), (args.batch,))].to(args.device)
        logits, mean, log_variance = model(batch)
        loss = negative_elbo(logits, batch, mean, log_variance)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if iteration % args.report == 0:
            now = time.perf_counter()
            milliseconds = (now - last) / args.report * 1000
            print(f"iteration {iteration}  loss {losses[-1]:.1f}  {milliseconds:.0f} ms", flush=True)
            last = now

    model.eval()
    with torch.no_grad():
        drawn = torch.sigmoid(model(images[:1].to(args.device))[0]).cpu()
    for left, right in zip(drawing(images[0]), drawing(drawn[0])):
        print(left, right, sep="|")
    seconds = time.perf_counter() - begin
    print(f"done  {args.iterations} iterations in {seconds:.1f} s, loss {losses[0]:.1f} -> {losses[-1]:.1f}")
    if args.save:
        torch.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()

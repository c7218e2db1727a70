#!/usr/bin/env python3
"""A generative adversarial network learns a distribution: eight spots on a circle.

The discriminator learns to tell real points from generated ones, the generator to deceive it; an iteration is a step of
each. Their losses say little, so the report also gives the spots that the generator hits, and the sliced Wasserstein
distance between 2000 real and 2000 generated points.

    python 06_gan.py
    python 06_gan.py --iterations 20 --batch 100000     # large setting
"""

import argparse
import math
import time

import torch
import torch.nn.functional as F
from torch import nn

SPOTS = 8


def centers():
    turn = torch.arange(SPOTS) / SPOTS * 2 * math.pi
    return torch.stack([turn.cos(), turn.sin()], dim=1)


def real_points(count, device):
    chosen = centers()[torch.randint(SPOTS, (count,))]
    return (chosen + 0.05 * torch.randn(count, 2)).to(device)


def network(inputs, outputs, width, layers):
    modules = [nn.Linear(inputs, width), nn.LeakyReLU(0.2)]
    for _ in range(layers - 1):
        modules += [nn.Linear(width, width), nn.LeakyReLU(0.2)]
    return nn.Sequential(*modules, nn.Linear(width, outputs))


def discriminator_loss(discriminator, real, fake):
    on_real, on_fake = discriminator(real), discriminator(fake)
    return (F.binary_cross_entropy_with_logits(on_real, torch.ones_like(on_real))
            + F.binary_cross_entropy_with_logits(on_fake, torch.zeros_like(on_fake)))


def generator_loss(discriminator, fake):
    on_fake = discriminator(fake)
    return F.binary_cross_entropy_with_logits(on_fake, torch.ones_like(on_fake))


@torch.no_grad()
def quality(generator, latent, device):
    """Spots with at least a quarter of their share of points, and the distance between the distributions."""
    real = real_points(2000, "cpu")
    fake = generator(torch.randn(2000, latent).to(device)).cpu()
    nearest_distance, nearest = torch.cdist(fake, centers()).min(dim=1)
    hits = torch.bincount(nearest[nearest_distance < 0.2], minlength=SPOTS)
    turn = torch.linspace(0, math.pi, 16)
    directions = torch.stack([turn.cos(), turn.sin()])
    distance = ((real @ directions).sort(dim=0).values - (fake @ directions).sort(dim=0).values).abs().mean()
    return (hits >= 2000 / SPOTS / 4).sum().item(), distance.item()


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {value}")
    return value


def arguments():
    parser = argparse.ArgumentParser(description="Train a generative adversarial network on generated points.")
    parser.add_argument("--iterations", type=positive, default=3000)
    parser.add_argument("--batch", type=positive, default=512)
    parser.add_argument("--width", type=positive, default=64, help="size of each layer")
    parser.add_argument("--layers", type=positive, default=3, help="hidden layers of each network")
    parser.add_argument("--latent", type=positive, default=8, help="random numbers that make a point")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--report", type=positive, default=100, help="iterations between two lines")
    parser.add_argument("--save", metavar="FILE", help="where to save the weights of both networks")
    return parser.parse_args()


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    generator = network(args.latent, 2, args.width, args.layers).to(args.device)
    discriminator = network(2, 1, args.width, args.layers).to(args.device)
    generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.99))
    discriminator_optimizer = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.99))
    first = quality(generator, args.latent, args.device)

    begin = last = time.perf_counter()
    for iteration in range(1, args.iterations + 1):
        fake = generator(torch.randn(args.batch, args.latent).to(args.device))

        discriminator_optimizer.zero_grad()
        loss_d = discriminator_loss(discriminator, real_points(args.batch, args.device), fake.detach())
        loss_d.backward()
        discriminator_optimizer.step()

        generator_optimizer.zero_grad()
        loss_g = generator_loss(discriminator, fake)
        loss_g.backward()
        generator_optimizer.step()

        if iteration % args.report == 0:
            spots, distance = quality(generator, args.latent, args.device)
            now = time.perf_counter()
            milliseconds = (now - last) / args.report * 1000
            print(f"iteration {iteration}  loss {loss_d.item():.3f}  {milliseconds:.0f} ms"
                  f"  generator {loss_g.item():.3f}  spots {spots}  distance {distance:.3f}", flush=True)
            last = now

    spots, distance = quality(generator, args.latent, args.device)
    seconds = time.perf_counter() - begin
    print(f"done  {args.iterations} iterations in {seconds:.1f} s,"
          f" spots {first[0]} -> {spots} of {SPOTS}, distance {first[1]:.3f} -> {distance:.3f}")
    if args.save:
        torch.save({"generator": generator.state_dict(), "discriminator": discriminator.state_dict()}, args.save)


if __name__ == "__main__":
    main()

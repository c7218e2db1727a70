#!/usr/bin/env python3
"""A residual network learns to tell ten classes of images apart.

The images are generated: a colored, noisy grating each, whose direction is the class. After each epoch the model is
validated on images that it has not seen. The network is the ResNet for small images of He et al., 2015.

    python 03_resnet.py
    python 03_resnet.py --iterations 20 --batch 288 --layers 3     # large setting
"""

import argparse
import math
import time

import torch
import torch.nn.functional as F
from torch import nn

CLASSES = 10


def gratings(count, size):
    """Images of shape (count, 3, size, size), and their classes."""
    labels = torch.randint(CLASSES, (count,))
    axis = torch.linspace(-1, 1, size)
    y, x = axis.view(1, 1, -1, 1), axis.view(1, 1, 1, -1)
    direction = (math.pi / CLASSES * labels).view(-1, 1, 1, 1)
    frequency, phase = torch.rand(2, count, 1, 1, 1)
    wave = torch.sin((6 + 8 * frequency) * (x * direction.cos() + y * direction.sin()) + 2 * math.pi * phase)
    return torch.randn(count, 3, 1, 1) * wave + 0.5 * torch.randn(count, 3, size, size), labels


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet(width, layers):
    """Three stages of `layers` blocks each; every stage halves the image and doubles the channels."""
    stages = [nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    inputs = width
    for stage in range(3):
        for layer in range(layers):
            outputs = width * 2 ** stage
            stages.append(Block(inputs, outputs, stride=2 if stage > 0 and layer == 0 else 1))
            inputs = outputs
    return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES))


@torch.no_grad()
def accuracy(model, images, labels, args):
    model.eval()
    correct = 0
    for some, their in zip(images.split(args.batch), labels.split(args.batch)):
        correct += (model(some.to(args.device)).argmax(dim=1).cpu() == their).sum().item()
    model.train()
    return correct / len(labels)


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {value}")
    return value


def arguments():
    parser = argparse.ArgumentParser(description="Train an image classifier on generated images.")
    parser.add_argument("--iterations", type=positive, default=320)
    parser.add_argument("--batch", type=positive, default=32)
    parser.add_argument("--image", type=positive, default=32, help="height and width")
    parser.add_argument("--width", type=positive, default=16, help="channels of the first stage")
    parser.add_argument("--layers", type=positive, default=1, help="residual blocks of each of the three stages")
    parser.add_argument("--images", type=positive, default=1024, help="size of the training set")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--report", type=positive, default=10, help="iterations between two lines")
    parser.add_argument("--save", metavar="FILE", help="where to save the weights")
    return parser.parse_args()


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    images, labels = gratings(args.images, args.image)
    validation = gratings(256, args.image)
    model = resnet(args.width, args.layers).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    batches_per_epoch = math.ceil(args.images / args.batch)
    epochs = math.ceil(args.iterations / batches_per_epoch)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)

    iteration = 0
    begin = last = time.perf_counter()
    for epoch in range(1, epochs + 1):
        order = torch.randperm(args.images)
        for chosen in order.split(args.batch)[:args.iterations - iteration]:
            outputs = model(images[chosen].to(args.device))
            loss = F.cross_entropy(outputs, labels[chosen].to(args.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            iteration += 1
            if iteration == 1:
                first = loss.item()
            if iteration % args.report == 0:
                now = time.perf_counter()
                milliseconds = (now - last) / args.report * 1000
                print(f"iteration {iteration}  loss {loss.item():.3f}  {milliseconds:.0f} ms", flush=True)
                last = now
        scheduler.step()
        print(f"epoch {epoch}  accuracy {100 * accuracy(model, *validation, args):.1f} %", flush=True)

    seconds = time.perf_counter() - begin
    print(f"done  {iteration} iterations in {seconds:.1f} s, loss {first:.3f} -> {loss.item():.3f}")
    if args.save:
        torch.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()

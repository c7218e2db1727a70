#!/usr/bin/env python3
"""A U-Net serves requests that arrive at irregular times, and tells how long they had to wait.

A request is a batch of generated images to be segmented; the time to the next one is exponentially distributed, as if
many users asked independently. One request is served at a time, in the order of arrival; its latency runs from its
arrival to its answer. The weights are random, which changes nothing about the time that they take.

    python 08_inference.py
    python 08_inference.py --iterations 20 --rate 0.5 --batch 8 --image 528     # large setting
"""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn


def convolutions(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
    )


class UNet(nn.Module):
    """Each level halves the image and doubles the channels, and on the way back sees what it saw on the way there."""

    def __init__(self, classes, width, layers):
        super().__init__()
        widths = [width * 2 ** level for level in range(layers + 1)]
        self.first = convolutions(3, width)
        self.down = nn.ModuleList(convolutions(wide, 2 * wide) for wide in widths[:-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * wide, wide, 2, stride=2) for wide in reversed(widths[:-1]))
        self.join = nn.ModuleList(convolutions(2 * wide, wide) for wide in reversed(widths[:-1]))
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, images):
        x, seen = self.first(images), []
        for down in self.down:
            seen.append(x)
            x = down(F.max_pool2d(x, 2))
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([up(x), seen.pop()], dim=1))
        return self.last(x)


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {value}")
    return value


def rate(text):
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be more than 0, not {value}")
    return value


def arguments():
    parser = argparse.ArgumentParser(description="Serve requests for image segmentation.")
    parser.add_argument("--iterations", type=positive, default=200, help="requests to serve")
    parser.add_argument("--rate", type=rate, default=20, help="requests a second, on average")
    parser.add_argument("--batch", type=positive, default=1, help="images of a request")
    parser.add_argument("--image", type=positive, default=128, help="height and width, a multiple of 2^layers")
    parser.add_argument("--width", type=positive, default=8, help="channels of the first level")
    parser.add_argument("--layers", type=positive, default=3, help="levels below the first")
    parser.add_argument("--classes", type=positive, default=4, help="to tell apart")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--report", type=positive, default=20, help="iterations between two lines")
    parser.add_argument("--save", metavar="FILE", help="where to save the sum of all answers")
    args = parser.parse_args()
    if args.image % 2 ** args.layers:
        parser.error(f"--image must be a multiple of {2 ** args.layers}")
    return args


@torch.inference_mode()
def main():
    args = arguments()
    torch.manual_seed(args.seed)
    model = UNet(args.classes, args.width, args.layers).to(args.device).eval()
    images = torch.randn(args.batch, 3, args.image, args.image)
    arrivals = torch.empty(args.iterations).exponential_(args.rate).cumsum(dim=0).tolist()
    model(images.to(args.device))  # the first call is slow, and nobody's request

    checksum = torch.zeros(args.classes, args.image, args.image)
    waits, services = [], []
    begin = time.perf_counter()
    for iteration, arrival in enumerate(arrivals, 1):
        time.sleep(max(0.0, begin + arrival - time.perf_counter()))
        start = time.perf_counter()
        request = torch.roll(images, iteration, dims=3).to(args.device)
        checksum += model(request).softmax(dim=1).sum(dim=0).cpu()
        waits.append(start - begin - arrival)
        services.append(time.perf_counter() - start)
        if iteration % args.report == 0:
            wait, service = sum(waits[-args.report:]) / args.report, sum(services[-args.report:]) / args.report
            print(f"iteration {iteration}  waited {wait:.3f} s  {service * 1000:.0f} ms", flush=True)

    seconds = time.perf_counter() - begin
    latencies = sorted(wait + service for wait, service in zip(waits, services))
    p50, p95, p99 = (latencies[int(share * len(latencies))] * 1000 for share in (0.50, 0.95, 0.99))
    print(f"latency p50 {p50:.1f} ms, p95 {p95:.1f} ms, p99 {p99:.1f} ms")
    print(f"done  {args.iterations} iterations in {seconds:.1f} s, {args.iterations / seconds:.1f} a second,"
          f" busy {100 * sum(services) / seconds:.0f} %")
    if args.save:
        torch.save({"checksum": checksum}, args.save)


if __name__ == "__main__":
    main()

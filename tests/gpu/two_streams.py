"""A block freed while another stream still reads it must not be given out again: record_stream's promise.

Each iteration makes blocks on the main stream, has a side stream read them behind slow work, frees them at once and makes
others of the same size, which the main stream overwrites right away. Were the first ones' memory given out again at once
(SALUS_UNSAFE_REUSE=1), the side stream would read the others' numbers.
"""
import sys

import torch
from _common import DEVICE, MIB, needs_cuda, perceptron, sgd, vectors

needs_cuda()
torch.manual_seed(1)
STEPS, BLOCKS, SIZE = 25, 4, 16 * MIB
model = perceptron().to(DEVICE)
optimizer = sgd(model)
batches = [(x.to(DEVICE), y.to(DEVICE)) for x, y in vectors(STEPS)]
sums = torch.zeros(STEPS, BLOCKS, dtype=torch.float64, device=DEVICE)
left, right, product = (torch.randn(4096, 4096, device=DEVICE) for _ in range(3))
ones = torch.ones(SIZE, device=DEVICE)
main, side = torch.cuda.current_stream(), torch.cuda.Stream()
torch.mm(left, right, out=product)  # libraries are loaded now, not while streams race
with torch.cuda.stream(side):
    torch.mm(left, right, out=product)
    torch.dot(ones, ones)
torch.cuda.synchronize()

for number, (x, y) in enumerate(batches):
    optimizer.zero_grad()
    out = model(x)
    blocks = [torch.full((SIZE,), float(10 * number + i), device=DEVICE) for i in range(BLOCKS)]
    side.wait_stream(main)
    with torch.cuda.stream(side):
        for _ in range(10):  # some 20 ms
            torch.mm(left, right, out=product)
        for i, block in enumerate(blocks):
            sums[number, i] = torch.dot(block, ones)
    for block in blocks:
        block.record_stream(side)
    del block, blocks
    others = [torch.empty(SIZE, device=DEVICE).fill_(-1.0) for _ in range(BLOCKS)]
    del others
    loss = (out - y).square().mean()
    loss.backward()
    main.wait_stream(side)
    optimizer.step()
    del out, loss

# Sums of equal numbers: the tolerance is for rounding, and far below the difference to a block of other numbers.
wanted = torch.tensor([[(10.0 * number + i) * SIZE for i in range(BLOCKS)] for number in range(STEPS)], dtype=torch.float64)
wrong = ((sums.cpu() - wanted).abs() > 0.1 * SIZE + 1e-4 * wanted).any(dim=1)
if wrong.any():
    print("wrong: blocks were overwritten before they were read, in %d iterations of %d" % (wrong.sum(), STEPS))
    sys.exit(1)
print("ok two streams, %d iterations with %d blocks each" % (STEPS, BLOCKS))

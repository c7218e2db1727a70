# alone
"""salus run --memory limits what a process has from Salus and from the driver together.

What it sets is set here for a process of our own. Without Salus nothing limits that process, and little is tried.
"""
import os
import subprocess
import sys

import torch
import torch.nn.functional as F
from _common import DEVICE, MIB, check_same_weights, exact, needs_cuda, perceptron, train, vectors

GIB, LIMIT, BLOCK = 1 << 30, 3 << 30, 256 * MIB
UNDER_SALUS = bool(os.environ.get("SALUS_SOCKET")) and os.environ.get("SALUS_DISABLE", "0") in ("", "0")


def fill(blocks, most):
    """Whether there was memory for so many."""
    try:
        while len(blocks) < most:
            blocks.append(torch.full((BLOCK,), float(len(blocks)), device=DEVICE))
            free, total = torch.cuda.mem_get_info()
            assert total == LIMIT, total
            assert free <= LIMIT - torch.cuda.memory_allocated(), (free, torch.cuda.memory_allocated())
    except torch.cuda.OutOfMemoryError as error:
        assert "out of memory" in str(error).lower(), error
        return False
    return True


def check(blocks):
    for number, block in enumerate(blocks):
        assert (block.min().item(), block.max().item()) == (number, number), number


def limited():
    exact()
    model, batches = perceptron(), vectors(12)
    _, reference = train(model, batches)

    # Blocks that Salus serves, outside of iterations. A context and workspaces are not counted, or hardly.
    blocks = []
    assert not fill(blocks, 20), "5 GiB where 3 are allowed"
    assert 10 <= len(blocks) <= 12, len(blocks)
    check(blocks)
    assert torch.cuda.mem_get_info()[0] < 512 << 20, torch.cuda.mem_get_info()
    blocks.clear()
    assert fill(blocks, 8), "2 GiB after all was freed"

    # Blocks of a side stream are torch's own, which has them from the driver: they count with the others.
    beside = []
    with torch.cuda.stream(torch.cuda.Stream()):
        assert not fill(beside, 8), "4 GiB of two streams where 3 are allowed"
        check(beside)
    torch.cuda.synchronize()
    check(blocks)
    assert len(blocks) + len(beside) <= 12, len(beside)
    blocks.clear()
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        assert fill(beside, 8), "what the first stream's blocks had"
    torch.cuda.synchronize()
    beside.clear()
    assert fill(blocks, 8), "what torch's cache had"
    blocks.clear()

    # Inside iterations, where most blocks are in the lane: batches of 64 MiB, then one of 2 GiB that needs twice that.
    wide = torch.nn.Linear(4096, 4096, bias=False).to(DEVICE)
    optimizer = torch.optim.SGD(wide.parameters(), lr=1e-6)

    def step(rows):
        loss = F.gelu(wide(torch.ones(rows, 4096, device=DEVICE))).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(12):
        step(4096)
    try:
        step(131072)
        raise AssertionError("4 GiB where 3 are allowed")
    except torch.cuda.OutOfMemoryError:
        pass
    for _ in range(12):
        step(4096)
    torch.cuda.synchronize()

    _, trained = train(model, batches)
    check_same_weights(trained, reference)


needs_cuda()
if os.environ.get("MEMORY_LIMIT_IS_SET"):
    limited()
else:
    if UNDER_SALUS:
        subprocess.run([sys.executable, __file__], check=True,
                       env=dict(os.environ, SALUS_MEMORY=str(LIMIT), MEMORY_LIMIT_IS_SET="1"))
    print("ok --memory: 3 GiB allowed, no more given, and given again")

"""torch.cuda.set_per_process_memory_fraction limits what all blocks of a process take together."""
import torch
from _common import DEVICE, MIB, check_same_weights, exact, needs_cuda, perceptron, train, vectors

needs_cuda()
exact()
GIB, BLOCK = 1 << 30, 256 * MIB
model, batches = perceptron(), vectors(12)
_, reference = train(model, batches)
torch.cuda.empty_cache()


def fill(blocks, most):
    """Whether there was memory for so many."""
    try:
        while len(blocks) < most:
            blocks.append(torch.full((BLOCK,), float(len(blocks)), device=DEVICE))
            assert torch.cuda.memory_reserved() <= 3 * GIB + 256 * 2**20, torch.cuda.memory_reserved()
    except torch.cuda.OutOfMemoryError as error:
        assert "out of memory" in str(error).lower(), error
        return False
    return True


def check(blocks):
    for number, block in enumerate(blocks):
        assert (block.min().item(), block.max().item()) == (number, number), number


fraction = 3 * GIB / torch.cuda.get_device_properties(0).total_memory
torch.cuda.set_per_process_memory_fraction(fraction)
if hasattr(torch.cuda, "get_per_process_memory_fraction"):
    assert abs(torch.cuda.get_per_process_memory_fraction() - fraction) < 1e-6
blocks = []
assert not fill(blocks, 20), "5 GiB where 3 are allowed"
assert 10 <= len(blocks) <= 12, len(blocks)
check(blocks)
assert torch.cuda.memory_reserved() <= 3 * GIB, torch.cuda.memory_reserved()
blocks.clear()
assert fill(blocks, 8), "2 GiB after all was freed"
check(blocks)

# Blocks of a side stream are torch's own under Salus: they count with the others, and the others with them.
beside = []
with torch.cuda.stream(torch.cuda.Stream()):
    assert not fill(beside, 8), "4 GiB of two streams where 3 are allowed"
    check(beside)
torch.cuda.synchronize()
assert len(blocks) + len(beside) <= 12, len(beside)
blocks.clear()
torch.cuda.synchronize()
with torch.cuda.stream(torch.cuda.Stream()):
    assert fill(beside, 8), "what the first stream's blocks had"
torch.cuda.synchronize()
beside.clear()

_, trained = train(model, batches)
check_same_weights(trained, reference)
torch.cuda.set_per_process_memory_fraction(1.0)
blocks = [torch.empty(BLOCK, device=DEVICE) for _ in range(20)]
print("ok set_per_process_memory_fraction: 3 GiB allowed, no more given, and given again")

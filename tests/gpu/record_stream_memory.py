"""record_stream without any iteration: the memory of blocks that are freed behind another stream's work comes back."""
import torch
from _common import DEVICE, MIB, needs_cuda

needs_cuda()
BLOCKS, SIZE, AT_ONCE = 200, 16 * MIB, 4  # 64 MiB a block, and so many before the GPU has caught up
main, side = torch.cuda.current_stream(), torch.cuda.Stream()
sums = torch.zeros(BLOCKS, dtype=torch.float64, device=DEVICE)
most = 0
for number in range(BLOCKS):
    block = torch.full((SIZE,), float(number), device=DEVICE)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        sums[number] = block.sum(dtype=torch.float64)
    block.record_stream(side)
    del block
    if number % AT_ONCE == AT_ONCE - 1:
        torch.cuda.synchronize()
    most = max(most, torch.cuda.memory_reserved())
torch.cuda.synchronize()
wanted = [float(number * SIZE) for number in range(BLOCKS)]
assert sums.tolist() == wanted, [i for i in range(BLOCKS) if sums[i].item() != wanted[i]]
torch.cuda.empty_cache()
after = torch.cuda.memory_reserved()
print("reserved: %d MiB at most, %d MiB after empty_cache" % (most >> 20, after >> 20))
assert most < 1 << 30, "%d MiB reserved for blocks of 64 MiB" % (most >> 20)
assert after < 256 << 20, "%d MiB reserved after empty_cache" % (after >> 20)
print("ok record_stream in no iteration, %d blocks of 64 MiB in less than 1 GiB" % BLOCKS)

"""What a script can ask about its memory, and that the answers count what it holds, in the midst of iterations too."""
import torch
from _common import DEVICE, MIB, needs_cuda, perceptron, sgd, vectors

needs_cuda()
torch.manual_seed(1)


def held():
    return torch.cuda.memory_allocated() / 2**20


before = held()
block = torch.empty(64 * MIB, device=DEVICE)
assert 64 <= held() - before < 66, held() - before
assert torch.cuda.memory_reserved() / 2**20 >= 64
del block
assert abs(held() - before) < 1, (held(), before)

model = perceptron().to(DEVICE)
optimizer = sgd(model)
for number, (x, y) in enumerate(vectors(12)):
    x, y = x.to(DEVICE), y.to(DEVICE)
    torch.cuda.reset_peak_memory_stats()
    at_start = held()
    out = model(x)
    scratch = torch.zeros(32 * MIB, device=DEVICE)
    assert held() - at_start >= 32, (number, held(), at_start)
    loss = (out - y).square().mean() + scratch.sum()
    del scratch
    optimizer.zero_grad()
    loss.backward()
    del out, loss
    optimizer.step()
    peak = torch.cuda.max_memory_allocated() / 2**20
    assert peak - at_start >= 32, (number, peak, at_start)
    assert number == 0 or held() - at_start < 8, (number, held(), at_start)  # libraries keep some, gradients stay, once

assert "allocated" in torch.cuda.memory_summary().lower()
statistics = torch.cuda.memory_stats()
assert statistics["allocated_bytes.all.current"] == torch.cuda.memory_allocated()
assert isinstance(torch.cuda.memory_snapshot(), list)
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
free, total = torch.cuda.mem_get_info()
assert 0 < free < total
torch.cuda.reset_peak_memory_stats()
assert torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated()
print("ok memory_allocated, its peak, reset, summary, statistics, snapshot, empty_cache")

"""The next batch comes from pinned memory on a stream of its own while this one is trained on; every byte is checked."""
import torch
from _common import DEVICE, MIB, needs_cuda, perceptron, sgd

needs_cuda()
torch.manual_seed(1)
STEPS = 30
# Whole numbers, so that sums are exact in any order: of each batch 4 MiB.
batches = [torch.randint(0, 4, (4 * MIB,)).float().pin_memory() for _ in range(STEPS)]
wanted = [batch.double().sum().item() for batch in batches]
copies = torch.cuda.Stream()


def prefetch(number):
    with torch.cuda.stream(copies):
        return batches[number].to(DEVICE, non_blocking=True)


model = perceptron().to(DEVICE)
optimizer = sgd(model)
sums = torch.zeros(STEPS, dtype=torch.float64, device=DEVICE)
upcoming = prefetch(0)
for number in range(STEPS):
    torch.cuda.current_stream().wait_stream(copies)
    batch = upcoming
    batch.record_stream(torch.cuda.current_stream())
    if number + 1 < STEPS:
        upcoming = prefetch(number + 1)
    x = batch.view(-1, 64)[:4096]
    out = model(x)
    sums[number] = batch.double().sum()
    del batch
    loss = (out - x[:, :8]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    del x, out, loss
assert sums.tolist() == wanted, [i for i in range(STEPS) if sums[i].item() != wanted[i]]
print("ok prefetch from pinned memory on a side stream, %d batches complete" % STEPS)

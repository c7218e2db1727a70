# What may be done with tensors of 1 to 8 MiB, inside iterations and across them; it checks the values itself.
# iterations: 12
import copy
import io
import pickle

import numpy
import torch
from torch import nn

MIB = 1 << 18  # floats


def filled(mib, value):
    return torch.full((mib * MIB,), float(value))


def check(tensor, value):
    assert torch.equal(tensor, torch.full_like(tensor, float(value))), (value, tensor.flatten()[:4])


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
kept, activations = [], []  # (value, what holds it), and copies of what a model gave out
for step in range(12):
    x = torch.randn(1024, 512)
    out = model(x)
    loss = (out - x).pow(2).mean()
    kept.append((step, filled(1 + step % 8, step).numpy()))  # the array alone keeps the block
    kept.append((step, torch.from_numpy(numpy.full(2 * MIB, step, dtype=numpy.float32))))
    kept.append((step, filled(2, step).share_memory_()))
    kept.append((step, filled(8, step)[MIB:2 * MIB]))  # a view of something larger
    buffer = io.BytesIO()
    torch.save(filled(3, step), buffer)
    kept.append((step, torch.load(io.BytesIO(buffer.getvalue()))))
    kept.append((step, copy.deepcopy(filled(4, step))))
    kept.append((step, pickle.loads(pickle.dumps(filled(1, step)))))
    kept.append((step, filled(1, step).resize_(6 * MIB).fill_(step)))
    shared = filled(2, -1)
    alias = shared.view(2, MIB)[1]
    shared.fill_(step)
    kept.append((step, alias))
    activations.append((out.detach(), out.detach().clone(), out.detach().tolist()[7][:5]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    outside = filled(5, step)
    for value, holder in kept:
        check(torch.as_tensor(holder), value)
    for view, clone, row in activations:
        assert torch.equal(view, clone) and view[7][:5].tolist() == row
    check(outside, step)
    del kept[:max(0, len(kept) - 27)], activations[:-3]  # each lives for three iterations
print("loss %.4f" % loss.item())
print("done")

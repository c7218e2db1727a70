# A thread prepares the batches in advance.
# iterations: 12
import queue
import threading

import torch
from torch import nn

torch.manual_seed(0)
batches = queue.Queue(maxsize=3)


def prefetch():
    generator = torch.Generator().manual_seed(1)
    for _ in range(12):
        batches.put(torch.randn(16, 8, generator=generator))
    batches.put(None)


threading.Thread(target=prefetch, daemon=True).start()
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for x in iter(batches.get, None):
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss %.4f" % loss.item())
print("done")

# Two threads, each with a model to train; they are in the midst of it at the same time.
# iterations: 22
import threading
import time

import torch
from torch import nn

torch.manual_seed(0)
models = [nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)) for _ in range(2)]
losses = [0.0, 0.0]


def train(number, steps):
    model = models[number]
    generator = torch.Generator().manual_seed(number)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        x = torch.randn(16, 8, generator=generator)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        time.sleep(0.001)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    losses[number] = loss.item()


threads = [threading.Thread(target=train, args=(number, 10 + 2 * number)) for number in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("losses %.4f %.4f" % tuple(losses))
print("done")

"""The job beside a script: trains until a file is there, and checks that nobody writes to its memory. _neighbour.py FILE"""
import os
import sys
import time

import torch
import torch.nn.functional as F
from _common import DEVICE, MIB, check_same_weights, exact, perceptron, sgd, train, vectors

exact()
model, batches = perceptron(), vectors(20)
_, reference = train(model, batches)
again, iterations = perceptron().to(DEVICE), 0
optimizer = sgd(again)
while iterations < 20 or not os.path.exists(sys.argv[1]):
    x, y = batches[iterations % len(batches)]
    loss = F.mse_loss(again(x.to(DEVICE)), y.to(DEVICE))
    scratch = torch.full((4 * MIB,), float(iterations % 1000), device=DEVICE)  # dies with the iteration: it is in the lane
    optimizer.zero_grad()
    loss.backward()
    low, high = scratch.min().item(), scratch.max().item()
    assert (low, high) == (iterations % 1000, iterations % 1000), "the lane was overwritten: %g to %g" % (low, high)
    del scratch
    optimizer.step()
    iterations += 1
    if iterations == 20:
        print("ready", flush=True)
    time.sleep(0.001)
_, trained = train(model, batches)
check_same_weights(trained, reference)
print("ok %d iterations" % iterations)

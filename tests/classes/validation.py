"""Trains, and validates after each epoch, with pauses in which it does nothing."""

import time

import torch

model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(4):
    model.train()
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.ones(8, 64)).sum().backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for _ in range(8):
            model(torch.ones(8, 64))
            time.sleep(0.02)
print("validated")

"""Gradient checkpointing: activations are computed again in backward; the gradients are the same."""
import copy

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from _common import DEVICE, check_same_weights, exact, perceptron, sgd, step, train, vectors


class Checkpointed(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x):
        x = checkpoint(self.layers[:2], x, use_reentrant=False)
        x = checkpoint(self.layers[2:4], x, use_reentrant=True)
        return self.layers[4:](x)


exact()
model, batches = perceptron(), vectors(16)
_, reference = train(model, batches)
checkpointed = Checkpointed(copy.deepcopy(model)).to(DEVICE)
optimizer = sgd(checkpointed)
for x, y in batches:
    step(checkpointed, optimizer, x.to(DEVICE), y.to(DEVICE))
check_same_weights(checkpointed.layers, reference)
print("ok gradient checkpointing, both kinds")

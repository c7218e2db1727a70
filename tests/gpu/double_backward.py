"""Two passes over one graph (retain_graph), and a gradient of gradients (a penalty on them), as on the CPU."""
import copy

import torch
import torch.nn.functional as F
from _common import DEVICE, check_same_weights, exact, perceptron, sgd, vectors


def train(model, device):
    model = copy.deepcopy(model).to(device)
    optimizer = sgd(model)
    for x, y in batches:
        x, y = x.to(device).requires_grad_(), y.to(device)
        optimizer.zero_grad()
        out = model(x)
        F.mse_loss(out, y).backward(retain_graph=True)
        (0.1 * out.square().mean()).backward(retain_graph=True)
        gradient, = torch.autograd.grad(out.sum(), x, create_graph=True)
        (gradient.norm(dim=1) - 1).square().mean().mul(0.1).backward()
        optimizer.step()
    return model


exact()
model, batches = perceptron(), vectors(12)
check_same_weights(train(model, DEVICE), train(model, "cpu"))
print("ok retain_graph and double backward as on the CPU")

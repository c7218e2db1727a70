"""Exceptions in the middle of iterations, in forward and in backward, caught; the training goes on as if they had not been."""
import copy

import torch
import torch.nn.functional as F
from _common import DEVICE, MIB, check_same_weights, exact, perceptron, sgd, step, train, vectors


class Unlucky(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        raise ValueError("in backward")


exact()
model, batches = perceptron(), vectors(24)
_, reference = train(model, batches)
model = copy.deepcopy(model).to(DEVICE)
optimizer = sgd(model)
caught = []
for number, (x, y) in enumerate(batches):
    x, y = x.to(DEVICE), y.to(DEVICE)
    try:
        if number % 6 == 4:
            out = model(x)
            scratch = torch.zeros(4 * MIB, device=DEVICE)
            raise ValueError("after the model's call")
        if number % 6 == 5:
            F.mse_loss(Unlucky.apply(model(x)), y).backward()
        if number % 6 == 3:
            model(x[:, :7])
    except (ValueError, RuntimeError) as error:
        caught.append(type(error).__name__)
    step(model, optimizer, x, y)
assert caught.count("ValueError") == 8 and len(caught) == 12, caught
check_same_weights(model, reference)
print("ok %d exceptions in the middle of iterations" % len(caught))

"""Asking for more than the device has is an ordinary error, inside an iteration and outside; the training goes on."""
import copy

import torch
from _common import DEVICE, check_same_weights, exact, needs_cuda, perceptron, sgd, train, vectors

needs_cuda()
exact()
model, batches = perceptron(), vectors(16)
_, reference = train(model, batches)
model = copy.deepcopy(model).to(DEVICE)
optimizer = sgd(model)
too_much = torch.cuda.get_device_properties(0).total_memory + 2**30


def ask_for_too_much():
    try:
        torch.empty(too_much, dtype=torch.uint8, device=DEVICE)
    except torch.OutOfMemoryError as error:
        assert "out of memory" in str(error).lower(), error
        return 1
    return 0


refusals = ask_for_too_much()
for number, (x, y) in enumerate(batches):
    out = model(x.to(DEVICE))
    refusals += number % 5 == 4 and ask_for_too_much()
    loss = (out - y.to(DEVICE)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    refusals += number % 5 == 3 and ask_for_too_much()
assert refusals == 7, refusals
check_same_weights(model, reference)
print("ok %d times out of memory, and on" % refusals)

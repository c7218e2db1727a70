"""torch.cuda.make_graphed_callables: forward and backward are graphs, the rest of the loop is not."""
import copy

import torch
from _common import DEVICE, check_close, check_same_weights, exact, needs_cuda, perceptron, sgd, step, train, vectors

needs_cuda()
exact()
model, batches = perceptron(), [(x.to(DEVICE), y.to(DEVICE)) for x, y in vectors(30)]
reference, reference_model = train(model, batches)
model = copy.deepcopy(model).to(DEVICE)
graphed = torch.cuda.make_graphed_callables(model, (torch.randn_like(batches[0][0]),))
optimizer = sgd(model)
losses = [step(graphed, optimizer, x, y).item() for x, y in batches]
check_close("losses", losses, reference)
check_same_weights(model, reference_model)
print("ok make_graphed_callables, %d iterations as without" % len(losses))

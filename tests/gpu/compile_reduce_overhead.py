"""torch.compile, mode "reduce-overhead": as without, within rounding."""
import torch
import torch.nn.functional as F
from _common import DEVICE, check_close, check_same_weights, exact, perceptron, sgd, step, train, vectors

exact()
model, batches = perceptron(), vectors(30)
reference, reference_model = train(model, batches)
model.to(DEVICE)
compiled = torch.compile(model, mode="reduce-overhead")
optimizer = sgd(model)
losses = []
for x, y in batches:
    torch.compiler.cudagraph_mark_step_begin()
    losses.append(step(compiled, optimizer, x.to(DEVICE), y.to(DEVICE), F.mse_loss).item())
check_close("losses", losses, reference, 5e-3)
check_same_weights(model, reference_model, 2e-2)
print("ok torch.compile reduce-overhead, %d iterations as without" % len(losses))

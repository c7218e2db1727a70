"""Mixed precision: autocast to float16 with GradScaler, which leaves steps out, and autocast to bfloat16."""
import copy

import torch
import torch.nn.functional as F
from _common import DEVICE, check_close, exact, perceptron, sgd, train, vectors

exact()
model, batches = perceptron(), vectors(30)
reference, _ = train(model, batches, device="cpu")


def mixed(dtype, scaler):
    copied = copy.deepcopy(model).to(DEVICE)
    optimizer = sgd(copied)
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=dtype):
            loss = F.mse_loss(copied(x.to(DEVICE)).float(), y.to(DEVICE))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


check_close("bfloat16", mixed(torch.bfloat16, torch.amp.GradScaler(DEVICE, enabled=False)), reference, 5e-2)
scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0**10)
check_close("float16", mixed(torch.float16, scaler), reference, 5e-2)
scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0**40)  # overflows, until the scale has been halved often enough
overflowing = mixed(torch.float16, scaler)
assert scaler.get_scale() < 2.0**40 and all(loss == loss for loss in overflowing)
print("ok autocast float16 with GradScaler, steps left out; autocast bfloat16")

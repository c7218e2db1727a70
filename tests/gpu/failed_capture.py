"""The capture of a CUDA graph fails, in the end too; then the training goes on, and large blocks come from where they did."""
import copy

import torch
from _common import (DEVICE, MIB, check_same_weights, exact, is_natively_placed, needs_cuda, perceptron, sgd, step, train,
                     vectors)

needs_cuda()
exact()
model, batches = perceptron(), vectors(24)
_, reference = train(model, batches)
model = copy.deepcopy(model).to(DEVICE)
optimizer = sgd(model)
natively = is_natively_placed(torch.empty(4 * MIB, device=DEVICE))
x = batches[0][0].to(DEVICE)
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side), torch.no_grad():
    model(x)  # libraries are loaded now
torch.cuda.synchronize()
graphs = []  # kept: torch's allocator asks a graph whose capture has failed about the next one
refusals = 0


def fail_to_capture():
    global refusals
    graphs.append(torch.cuda.CUDAGraph())
    with torch.cuda.stream(side), torch.no_grad():
        graphs[-1].capture_begin()
        try:
            model(x)
            scratch = torch.zeros(4 * MIB, device=DEVICE)
            torch.cuda.synchronize()  # not allowed here
        except RuntimeError:
            refusals += 1
        scratch = None
        try:
            graphs[-1].capture_end()
        except RuntimeError:
            refusals += 1


for number, (one, other) in enumerate(batches):
    if number in (6, 14):
        fail_to_capture()
    step(model, optimizer, one.to(DEVICE), other.to(DEVICE))
assert refusals == 4, "%d refusals" % refusals
check_same_weights(model, reference)
block = torch.full((4 * MIB,), 3.0, device=DEVICE)
assert block.sum().item() == 12 * MIB
assert is_natively_placed(block) == natively, "since a capture failed, Salus places no blocks"
print("ok two captures that failed, and on")

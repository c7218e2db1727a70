# contended
"""Another GPU is the current one when an iteration of the first ends, or begins; results are the same."""
import copy

import torch
import torch.nn.functional as F
from _common import MIB, check_same_weights, exact, needs_cuda, perceptron, sgd, train, vectors

needs_cuda()
exact()
LAST_LINE = "ok another GPU is current at boundaries, where there is one"
if torch.cuda.device_count() < 2:
    print("nothing was tried: there is one GPU only")
    print(LAST_LINE)
    raise SystemExit
model, batches = perceptron(), vectors(40)
_, reference = train(model, batches, device="cuda:0")
model = copy.deepcopy(model).to("cuda:0")
optimizer = sgd(model)
survivors = []
for number, (x, y) in enumerate(batches):
    torch.cuda.set_device(number % 3 == 1)
    out = model(x.to("cuda:0"))
    survivors.append(torch.full((4 * MIB,), float(number), device="cuda:0"))
    loss = F.mse_loss(out, y.to("cuda:0"))
    optimizer.zero_grad()
    loss.backward()
    torch.cuda.set_device(number % 2)
    beside = torch.ones(4 * MIB, device="cuda:1").sum()
    optimizer.step()
    assert beside.item() == 4 * MIB
    del out, loss
    if len(survivors) > 3:
        survivor = survivors.pop(0)
        assert (survivor.min().item(), survivor.max().item()) == (number - 3, number - 3), number
check_same_weights(model, reference)
print(LAST_LINE)

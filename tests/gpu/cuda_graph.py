"""A whole training step captured in a CUDA graph and replayed: the same weights as step by step."""
import copy

import torch
import torch.nn.functional as F
from _common import DEVICE, check_same_weights, exact, needs_cuda, perceptron, sgd, train, vectors

needs_cuda()
exact()
WARMUP, REPLAYS = 3, 50
model, batches = perceptron(), [(x.to(DEVICE), y.to(DEVICE)) for x, y in vectors(WARMUP + REPLAYS)]
_, reference = train(model, batches)
model = copy.deepcopy(model).to(DEVICE)
optimizer = sgd(model)
x, y = (torch.empty_like(part) for part in batches[0])


def one_step():
    optimizer.zero_grad(set_to_none=True)
    F.mse_loss(model(x), y).backward()
    optimizer.step()


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for batch in batches[:WARMUP]:
        x.copy_(batch[0])
        y.copy_(batch[1])
        one_step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    one_step()
for batch in batches[WARMUP:]:
    x.copy_(batch[0])
    y.copy_(batch[1])
    graph.replay()
check_same_weights(model, reference)
print("ok CUDA graph of a whole step, %d replays as step by step" % REPLAYS)

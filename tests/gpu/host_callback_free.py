# contended
"""A function that the GPU calls on the host drops the last reference to a large tensor, while iterations go on.

It runs in a thread of the driver, which works on no stream until the function is back: nobody may wait for the GPU with a lock
held that freeing needs. Each iteration leaves a survivor of another size, so that its boundary waits for the GPU.
"""
import copy
import ctypes

import torch
import torch.nn.functional as F
from _common import (DEVICE, MIB, at_most, call, check_same_weights, driver, exact, needs_cuda, perceptron, sgd, train,
                     vectors)

needs_cuda()
at_most(60)
exact()
ROUNDS = 120
model, batches = perceptron(), [(x.to(DEVICE), y.to(DEVICE)) for x, y in vectors(ROUNDS)]
_, reference = train(model, batches)
model = copy.deepcopy(model).to(DEVICE)
optimizer = sgd(model)
cuda = driver()
blocks, dropped, failed = {}, [], []


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def drop(number):
    try:
        del blocks[number]
        dropped.append(number)
    except BaseException as error:
        failed.append(error)


left, right = (torch.randn(2048, 2048, device=DEVICE) for _ in range(2))
side = torch.cuda.Stream()
torch.cuda.synchronize()
survivors = []
for number, (x, y) in enumerate(batches, 1):
    loss = F.mse_loss(model(x), y)
    blocks[number] = torch.full((2 * MIB,), float(number), device=DEVICE)  # 8 MiB
    stream = torch.cuda.current_stream() if number % 2 else side
    with torch.cuda.stream(stream):
        for _ in range(10):  # some milliseconds: the boundary is reached before the function is called
            product = left @ right
        call(cuda.cuLaunchHostFunc, ctypes.c_void_p(stream.cuda_stream), drop, ctypes.c_void_p(number))
    survivors.append((number, torch.full((2 * MIB + number * 4096,), float(number), device=DEVICE)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    del loss, product
    if len(survivors) > 8:
        made, survivor = survivors.pop(0)
        assert (survivor.min().item(), survivor.max().item()) == (made, made), made
torch.cuda.synchronize()
assert not failed, failed
assert sorted(dropped) == list(range(1, ROUNDS + 1)) and not blocks, (len(dropped), len(blocks))
check_same_weights(model, reference)
print("ok %d large tensors freed by a function that the GPU calls" % ROUNDS)

# contended
"""Iterations on a stream that the script made by itself; it destroys the stream and goes on with others."""
import copy
import ctypes

import torch
from _common import DEVICE, call, check_same_weights, driver, exact, needs_cuda, perceptron, sgd, step, train, vectors

needs_cuda()
exact()
model, batches = perceptron(), vectors(36)
_, reference = train(model, batches, device="cpu")
torch.zeros(1, device=DEVICE)  # small: no large block lies on the default stream yet
cuda = driver()
copied = optimizer = None
NON_BLOCKING = 1
for begin in range(0, len(batches), 12):
    handle = ctypes.c_void_p()
    call(cuda.cuStreamCreate, ctypes.byref(handle), NON_BLOCKING)
    own = torch.cuda.ExternalStream(handle.value)
    own.wait_stream(torch.cuda.default_stream())
    with torch.cuda.stream(own):
        if copied is None:
            copied = copy.deepcopy(model).to(DEVICE)
            optimizer = sgd(copied)
        for x, y in batches[begin:begin + 6]:
            step(copied, optimizer, x.to(DEVICE), y.to(DEVICE)).item()
    torch.cuda.synchronize()
    del own, x, y
    call(cuda.cuStreamDestroy_v2, handle)
    for x, y in batches[begin + 6:begin + 12]:
        step(copied, optimizer, x.to(DEVICE), y.to(DEVICE)).item()
    del x, y
    torch.cuda.synchronize()
check_same_weights(copied, reference)
print("ok three streams made, used and destroyed by the script, %d iterations" % len(batches))

"""Images in channels_last order give the same training."""
import copy

import torch
import torch.nn.functional as F
from _common import DEVICE, check_close, convnet, exact, images, sgd, step, train

exact()
model, batches = convnet(), images(16)
reference, _ = train(model, batches, F.cross_entropy)
model = copy.deepcopy(model).to(DEVICE, memory_format=torch.channels_last)
optimizer = sgd(model)
losses = [step(model, optimizer, x.to(DEVICE, memory_format=torch.channels_last), y.to(DEVICE), F.cross_entropy).item()
          for x, y in batches]
features = model[0](batches[0][0].to(DEVICE, memory_format=torch.channels_last))
assert features.is_contiguous(memory_format=torch.channels_last)
check_close("losses", losses, reference, 5e-3)
print("ok channels_last, %d iterations as in the usual order" % len(losses))

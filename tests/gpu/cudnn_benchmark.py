"""cudnn.benchmark tries algorithms, with workspaces of all sizes, whenever a shape is new."""
import torch
import torch.nn.functional as F
from _common import check_close, convnet, exact, images, train

exact()
torch.backends.cudnn.benchmark = True
model = convnet()
batches = [batch for size in (64, 48, 64, 80) for batch in images(6, size=size)]
losses, _ = train(model, batches, F.cross_entropy)
reference, _ = train(model, batches, F.cross_entropy, "cpu")
check_close("losses", losses, reference, 5e-3)
print("ok cudnn.benchmark, %d iterations of three shapes as on the CPU" % len(losses))

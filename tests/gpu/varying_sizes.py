"""Batches of other sizes all the time, larger ones later: what was learned of one iteration is wrong for the next."""
import torch
from _common import check_close, check_same_weights, exact, perceptron, train

exact()
model = perceptron()
sizes = [256, 256, 256, 1024, 512, 2048, 256, 4096, 300, 8192, 1024, 16384, 257, 4096, 16384, 512]
batches = [(x, x[:, :8] - x[:, 8:16]) for x in (torch.randn(size, 64) for size in sizes)]
losses, trained = train(model, batches)
reference, reference_model = train(model, batches, device="cpu")
check_close("losses", losses, reference)
check_same_weights(trained, reference_model)
print("ok %d batches of %d sizes as on the CPU" % (len(sizes), len(set(sizes))))

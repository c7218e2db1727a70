"""Prints when the first kernel of this process was done, s on the monotonic clock: first.py torch|jax."""

import sys
import time

if sys.argv[1] == "jax":
    import jax.numpy

    (jax.numpy.ones((64, 64)) @ jax.numpy.ones((64, 64))).block_until_ready()
else:
    import torch

    (torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")).sum().item()
print(time.monotonic())

# counts: no
# under: ncu --log-file /dev/null --section LaunchStats --launch-count 3
"""Nsight Compute profiles three kernels. It is injected where a counter of launches would be."""
from _common import few_kernels, needs

needs("torch")
few_kernels()

"""numba.cuda: kernels written in Python."""
from _common import needs, show, skip

needs("numba", "numpy")
import numpy as np  # noqa: E402

try:
    from numba import cuda
except ImportError:
    skip("numba.cuda")
if not cuda.is_available():
    skip("numba.cuda")


@cuda.jit
def add_scaled(x, y, factor):
    at = cuda.grid(1)
    if at < x.size:
        y[at] += factor * x[at]


@cuda.jit
def count_positive(x, counts):
    at = cuda.grid(1)
    if at < x.size and x[at] > 0:
        cuda.atomic.add(counts, 0, 1)


values = np.sin(np.arange(1 << 20))
x, y, counts = cuda.to_device(values), cuda.to_device(np.zeros_like(values)), cuda.to_device(np.zeros(1, np.int64))
for _ in range(50):
    add_scaled[values.size // 256, 256](x, y, 0.5)
count_positive[values.size // 256, 256](x, counts)
show("mean", np.abs(y.copy_to_host()).mean())
print("positive", int(counts.copy_to_host()[0]), "of", int((values > 0).sum()))

"""CuPy: elementwise, reductions, a product of matrices, an FFT, kernels of the user's own."""
from _common import needs, show

needs("cupy")
import cupy as cp  # noqa: E402

x = cp.sin(cp.arange(1 << 20, dtype=cp.float64)).reshape(1024, 1024)
show("elementwise", float((x * x + cp.exp(-x)).sum()))
show("product", float(cp.abs(x @ x.T).mean()))
show("spectrum", float(cp.abs(cp.fft.fft(x, axis=1)).mean()))
show("sorted", float(cp.sort(x.ravel())[::1 << 17].sum()), digits=2)
squared = cp.ElementwiseKernel("float64 a, float64 b", "float64 c", "c = (a - b) * (a - b)", "squared_difference")
show("own elementwise", float(squared(x, x.T).mean()))
scaled = cp.RawKernel(r"""
extern "C" __global__ void scaled(const double* in, double* out, double factor, int count) {
    const int at = blockDim.x * blockIdx.x + threadIdx.x;
    if (at < count) out[at] = factor * in[at];
}
""", "scaled")
y = cp.empty_like(x)
for _ in range(50):
    scaled((x.size // 256,), (256,), (x, y, cp.float64(3.0), cp.int32(x.size)))
print("own raw:", bool((y == 3.0 * x).all()))

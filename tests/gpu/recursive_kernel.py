"""A kernel with real recursion needs stack that no compiler foresees: more than 512 bytes a thread, less than 1024."""
import ctypes

import torch
from _common import DEVICE, call, driver, needs_cuda, perceptron, sgd, step, vectors

needs_cuda()
SOURCE = r"""
__device__ unsigned long long place_of(const void* local) {
    unsigned long long place;
    asm volatile("cvta.to.local.u64 %0, %1;" : "=l"(place) : "l"(local));
    return place;
}
__device__ __noinline__ unsigned descend(unsigned depth, unsigned value, unsigned long long* lowest) {
    unsigned locals[8];
    for (unsigned i = 0; i < 8; ++i) locals[i] = value * (i + 1) + depth;
    unsigned long long here = place_of(locals);
    if (here < *lowest) *lowest = here;
    unsigned below = depth > 0 ? descend(depth - 1, locals[(value + depth) & 7], lowest) : 0;
    return below * 3 + locals[(below + value) & 7];
}
extern "C" __global__ void climb(const unsigned* values, unsigned* results, unsigned long long* used, int depth, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    unsigned long long lowest = ~0ull, top = place_of(&lowest) + sizeof lowest;
    results[i] = descend(depth, values[i], &lowest);
    if (i == 0) *used = top - lowest;
}
"""
COUNT, BLOCK, WANTED_BYTES = 1 << 20, 256, 800


def descend(depth, value):
    """As the kernel does it."""
    table = [value * (i + 1) + depth for i in range(8)]
    below = descend(depth - 1, table[(value + depth) & 7] & 0xffffffff) if depth > 0 else 0
    return (below * 3 + table[(below + value) & 7]) & 0xffffffff


def compiled_by_torch():
    kernel = torch.cuda._compile_kernel(SOURCE, "climb")
    return lambda *args: kernel(grid=(COUNT // BLOCK, 1, 1), block=(BLOCK, 1, 1), args=[*args])


def compiled_by_nvrtc():
    nvrtc = cuda = None
    for name in ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"):
        try:
            nvrtc, cuda = ctypes.CDLL(name), driver()
            break
        except OSError:
            pass
    if nvrtc is None:
        raise OSError("no libnvrtc")
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = (ctypes.c_char_p * 1)(b"--gpu-architecture=sm_%d%d" % torch.cuda.get_device_capability())
    call(nvrtc.nvrtcCreateProgram, ctypes.byref(program), SOURCE.encode(), b"climb.cu", 0, None, None)
    call(nvrtc.nvrtcCompileProgram, program, 1, options)
    call(nvrtc.nvrtcGetCUBINSize, program, ctypes.byref(size))
    binary = ctypes.create_string_buffer(size.value)
    call(nvrtc.nvrtcGetCUBIN, program, binary)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    call(cuda.cuModuleLoadData, ctypes.byref(module), binary)
    call(cuda.cuModuleGetFunction, ctypes.byref(function), module, b"climb")

    def launch(*args):
        held = [ctypes.c_int(arg) if isinstance(arg, int) else ctypes.c_void_p(arg.data_ptr()) for arg in args]
        pointers = (ctypes.c_void_p * len(held))(*[ctypes.addressof(one) for one in held])
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        call(cuda.cuLaunchKernel, function, COUNT // BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, pointers, None)

    return launch


def compiled():
    whys = []
    for way in (compiled_by_torch, compiled_by_nvrtc):
        try:
            return way()
        except Exception as error:
            whys.append("%s: %s: %s" % (way.__name__, type(error).__name__, error))
    print("; ".join(whys))
    return None


def stack_limit():
    size = ctypes.c_size_t()
    call(driver().cuCtxGetLimit, ctypes.byref(size), 0)
    return size.value


torch.zeros(1, device=DEVICE)
launch = compiled()
if launch is None:
    print("ok, but nothing was tried: there is nothing to compile a kernel with")
    raise SystemExit
values = torch.arange(COUNT, dtype=torch.int64)
results, used = torch.zeros(COUNT, dtype=torch.int32, device=DEVICE), torch.zeros(1, dtype=torch.int64, device=DEVICE)
on_device = values.to(torch.int32).to(DEVICE)


def stack_used(depth):
    results.zero_()
    launch(on_device, results, used, depth, COUNT)
    torch.cuda.synchronize()
    return used.item()


base = stack_used(0)
frame = stack_used(1) - base
depth = (WANTED_BYTES - base) // frame
print("stack limit %d bytes; a frame has %d, %d of them are to use %d" % (
    stack_limit(), frame, depth + 1, base + depth * frame))
assert 512 < base + depth * frame < 1000, (base, frame, depth)
wanted = torch.tensor([descend(depth, value) for value in range(0, COUNT, 257)], dtype=torch.int64)
model = perceptron().to(DEVICE)
optimizer = sgd(model)
for x, y in vectors(8):  # amid iterations, too
    step(model, optimizer, x.to(DEVICE), y.to(DEVICE))
    assert stack_used(depth) == base + depth * frame
    found = results[::257].cpu().to(torch.int64) & 0xffffffff
    assert torch.equal(found, wanted), "wrong results of %d threads" % (found != wanted).sum()
print("ok a recursive kernel that uses more than 512 bytes of stack")

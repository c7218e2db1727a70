# counts: no
"""torch.profiler sees kernels. It is a user of CUPTI, which takes one user a process: nobody else can count launches."""
from _common import exact, needs, show

needs("torch")
import torch  # noqa: E402
from torch.autograd import DeviceType  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

exact()
weights, first = torch.randn(1024, 1024, device="cuda") / 64, torch.randn(1024, 1024, device="cuda")
x = first
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
    for _ in range(20):
        x = torch.tanh(x @ weights + first)
    torch.cuda.synchronize()
kernels = [event for event in profiled.events() if event.device_type == DeviceType.CUDA]
print("at least 40 kernels:", len(kernels) >= 40)
show("mean", x.abs().mean().item())

"""Work that keeps a GPU busy, by framework: framework.py KIND [--steps N] [--seconds S] [--ready FILE --go FILE].

Runs N steps and prints a digest of the result, which running beside others must not change; then meets the others and runs for
S seconds. Prints one JSON object. At most two steps are in flight. With --pipes PREFIX it runs when it is told (on_demand.py):
`train END` runs until then and answers the ends of its steps.
"""

import argparse
import hashlib
import json
import time

import meeting
import on_demand

SIDE = 4096


def jax():
    import jax as framework
    import jax.numpy as jnp
    import numpy

    key = framework.random.PRNGKey(0)
    weights = [framework.random.normal(framework.random.fold_in(key, i), (SIDE, SIDE)) * 0.01 for i in range(4)]
    x = framework.random.normal(key, (SIDE, SIDE))

    def loss(parameters):
        h = x
        for w in parameters:
            h = jnp.tanh(h @ w)
        return (h * h).mean()

    update = framework.jit(lambda p: [w - 0.1 * g for w, g in zip(p, framework.grad(loss)(p))])
    flying = []

    def step():
        nonlocal weights
        weights = update(weights)
        flying.append(weights[0])
        if len(flying) > 2:
            flying.pop(0).block_until_ready()

    return step, lambda: weights[0].block_until_ready(), lambda: numpy.asarray(weights[0]).tobytes()


def cupy():
    import cupy as framework

    framework.random.seed(1)
    x = framework.random.rand(SIDE, SIDE, dtype=framework.float32)
    y = x.copy()
    flying = []

    def step():
        nonlocal y
        for _ in range(3):
            y = framework.tanh(y @ x * 1e-3)
        event = framework.cuda.Event()
        event.record()
        flying.append(event)
        if len(flying) > 2:
            flying.pop(0).synchronize()

    return step, framework.cuda.Device().synchronize, lambda: framework.asnumpy(y).tobytes()


def _with_torch(work, result):
    import torch

    flying = []

    def step():
        work()
        event = torch.cuda.Event()
        event.record()
        flying.append(event)
        if len(flying) > 2:
            flying.pop(0).synchronize()

    return step, torch.cuda.synchronize, result


def triton():
    """Kernels of its own on tensors of torch's: no model, so no iterations."""
    import torch
    import triton as framework
    import triton.language as tl

    @framework.jit
    def kernel(x, n, block: tl.constexpr):
        i = tl.program_id(0) * block + tl.arange(0, block)
        v = tl.load(x + i, mask=i < n)
        for _ in range(64):
            v = v * 0.999 + 0.001
        tl.store(x + i, v, mask=i < n)

    globals()["tl"] = tl  # the compiler looks names up in the module
    torch.manual_seed(1)
    x = torch.randn(1 << 26, device="cuda")

    def work():
        for _ in range(20):
            kernel[(framework.cdiv(x.numel(), 1024),)](x, x.numel(), block=1024)

    return _with_torch(work, lambda: x.cpu().numpy().tobytes())


def resnet():
    """A PyTorch training, through the adaptor."""
    import torch
    import torchvision

    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    model = torchvision.models.resnet50().cuda()
    x = torch.randn(64, 3, 224, 224, device="cuda")
    y = torch.randint(0, 1000, (64,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

    def work():
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return _with_torch(work, lambda: b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters()))


def main():
    kinds = {"jax": jax, "cupy": cupy, "triton": triton, "resnet": resnet}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--pipes", metavar="PREFIX")
    meeting.add_arguments(parser)
    args = parser.parse_args()
    began = time.monotonic()
    step, synchronize, result = kinds[args.kind]()
    step()
    synchronize()
    first = time.monotonic() - began
    for _ in range(args.steps - 1):
        step()
    synchronize()
    digest = hashlib.md5(result()).hexdigest()[:8]
    if args.pipes:
        return on_demand.serve(args.pipes, {"train": lambda end: on_demand.repeat(step, end)})
    meeting.meet(args)
    began = time.monotonic()
    steps = 0
    while time.monotonic() - began < args.seconds:
        step()
        steps += 1
    synchronize()
    rate = steps / (time.monotonic() - began)
    print(json.dumps({"kind": args.kind, "first_s": round(first, 2), "digest": digest, "rate": round(rate, 3)}))


if __name__ == "__main__":
    main()

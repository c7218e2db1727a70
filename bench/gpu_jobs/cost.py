"""What parts of Salus cost, switched every second inside one process: cost.py MODEL [--seconds S] [--tiny --device cpu].

Runs the same iterations by turns with the parts off and on; prints one JSON object with the milliseconds of an iteration in each
stretch. MODEL is one of models.py, or jax. Parts are the shim (libsalus-cuda.so) and the hooks (where iterations begin and end,
their turns, and so the lane).
"""

import argparse
import ctypes
import gc
import json
import time

from models import MODELS

MODES = {"neither": (False, False), "shim": (True, False), "hooks": (False, True), "both": (True, True)}
WARM_UP = 30
UNTIMED = 0.1  # of a stretch: memory moves after a switch


def jax_step():
    from framework import jax

    step, synchronize, _ = jax()
    return step, synchronize


def torch_step(name, device, tiny):
    import torch

    torch.manual_seed(1)
    model, inputs, targets, loss_of = MODELS[name](None, tiny)
    model, inputs, targets = model.to(device), inputs.to(device), targets.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step():
        loss = loss_of(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step, torch.cuda.synchronize if device == "cuda" else lambda: None


def switches():
    """Functions that switch the shim and the hooks; nothing for a part that is not in this process."""
    try:
        pass_by = ctypes.CDLL(None).salus_shim_pass_by
    except AttributeError:
        pass_by = None
    hooks = [found for found in gc.get_objects() if str(type(found).__module__).endswith("salus.torch_hooks")
             and type(found).__name__ == "Hooks"]

    def switch_hooks(on):
        if not on:
            hooks[0].broken_off()
        hooks[0].enabled = on

    return pass_by and (lambda on: pass_by(not on)), hooks and switch_hooks


def stretch(step, synchronize, seconds):
    """Milliseconds of an iteration."""
    end = time.perf_counter() + UNTIMED * seconds
    while time.perf_counter() < end:
        step()
    synchronize()
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for _ in range(4):
            step()
        count += 4
    synchronize()
    return (time.perf_counter() - begin) / count * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=("jax", *MODELS))
    parser.add_argument("--seconds", type=float, default=30, help="of all stretches together")
    parser.add_argument("--stretch", type=float, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    step, synchronize = jax_step() if args.model == "jax" else torch_step(args.model, args.device, args.tiny)
    for _ in range(WARM_UP):
        step()
    synchronize()
    shim, hooks = switches()
    modes = {name: parts for name, parts in MODES.items() if (shim or not parts[0]) and (hooks or not parts[1])}
    times = {name: [] for name in modes}
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        order = list(modes)[:: 1 if len(times["neither"]) % 2 == 0 else -1]
        for name in order:
            for switch, on in zip((shim, hooks), modes[name]):
                if switch:
                    switch(on)
            times[name].append(stretch(step, synchronize, args.stretch))
    print(json.dumps({"model": args.model, "times": times}))


if __name__ == "__main__":
    main()

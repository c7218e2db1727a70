"""How fast this GPU's memory is copied to the host and back: pinned and not, each way alone and both at once.

Usage: copy_rates.py GIB [cpu]
"""

import json
import sys
import time

import torch

device = "cpu" if "cpu" in sys.argv else "cuda"
size = int(float(sys.argv[1]) * 2**30)
piece = min(64 << 20, size)
streams = [torch.cuda.Stream(), torch.cuda.Stream()] if device == "cuda" else [None, None]


def copies(pairs_of):
    """Bytes a second of all; each list of pairs on a stream of its own."""
    best = 0.0
    for _ in range(3):
        begin = time.monotonic()
        for start in range(0, size, piece):
            for stream, (to, source) in zip(streams, pairs_of):
                if device == "cuda":
                    with torch.cuda.stream(stream):
                        to[start:start + piece].copy_(source[start:start + piece], non_blocking=True)
                else:
                    to[start:start + piece].copy_(source[start:start + piece])
        if device == "cuda":
            torch.cuda.synchronize()
        best = max(best, len(pairs_of) * size / (time.monotonic() - begin))
    return best


there = [torch.ones(size, dtype=torch.uint8, device=device) for _ in range(2)]
rates = {}
for kind in ("pinned", "not pinned"):
    here = [torch.ones(size, dtype=torch.uint8, pin_memory=kind == "pinned" and device == "cuda") for _ in range(2)]
    rates[kind] = {"out": copies([(here[0], there[0])]), "in": copies([(there[0], here[0])]),
                   "both": copies([(here[0], there[0]), (there[1], here[1])])}
print(json.dumps(rates))

"""Runs a script in torch's deterministic mode, and prints at its end what the weights are that it saved.

Usage: run_deterministic.py FILE SCRIPT [ARGUMENT ...]    the script is given --save FILE as well
"""
import hashlib
import os
import runpy
import sys

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # without it matrix products are not
import torch  # noqa: E402

torch.use_deterministic_algorithms(True, warn_only=True)  # what has no such algorithm warns
torch.backends.cudnn.deterministic = True
file, script = sys.argv[1:3]
sys.argv = [script, *sys.argv[3:], "--save", file]
sys.path[0] = os.path.dirname(script)
runpy.run_path(script, run_name="__main__")
digest = hashlib.sha256()


def add(value):
    if isinstance(value, torch.Tensor):
        digest.update(value.cpu().contiguous().numpy().tobytes())
    elif isinstance(value, dict):
        for name in sorted(value):
            digest.update(str(name).encode())
            add(value[name])


add(torch.load(file, map_location="cpu"))
print("weights", digest.hexdigest()[:16])

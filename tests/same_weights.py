"""Compares what two runs saved, bit by bit. Usage: same_weights.py A B    status 1 if they differ"""
import sys

import torch


def tensors(value, name=""):
    """Every tensor in it, by the path that leads there."""
    if torch.is_tensor(value):
        return {name: value}
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, (list, tuple)):
        parts = enumerate(value)
    else:
        return {}
    return {key: tensor for part, inner in parts for key, tensor in tensors(inner, "%s.%s" % (name, part)).items()}


def bits(tensor):
    return tensor.contiguous().numpy().tobytes()


a, b = (tensors(torch.load(path)) for path in sys.argv[1:3])
if not a or a.keys() != b.keys():
    sys.exit("not the same tensors: %s" % (sorted(a.keys() ^ b.keys()) or "none at all"))
different = [name for name in a if bits(a[name]) != bits(b[name])]
if different:
    sys.exit("different: %s" % ", ".join(different))

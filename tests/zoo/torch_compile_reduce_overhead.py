"""torch.compile, mode "reduce-overhead"."""
from _compiled import train

train("reduce-overhead")

"""torch.compile, mode "max-autotune"."""
from _compiled import train

train("max-autotune")

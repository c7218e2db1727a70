"""torch.compile, mode "default"."""
from _compiled import train

train("default")

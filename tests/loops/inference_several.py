# Requests for two models, in no order.
# iterations: 14
import torch
from torch import nn

torch.manual_seed(0)
vision = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)).eval()
text = nn.Sequential(nn.Embedding(100, 8), nn.Flatten(), nn.Linear(5 * 8, 3)).eval()
with torch.no_grad():
    for kind in "vtvvtttvtvvvtt":
        if kind == "v":
            scores = vision(torch.randn(2, 1, 8, 8))
        else:
            scores = text(torch.randint(100, (2, 5)))
        print(kind, scores.argmax(1).tolist())
print("done")

# The model is trained, then asked for the gradients of its inputs; the optimizer is still there, but steps no more.
# iterations: 17
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(10):
    x, y = torch.randn(16, 8), torch.randint(3, (16,))
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.eval()
matters = []
for i in range(7):
    x = torch.randn(1, 8, requires_grad=True)
    scores = model(x)
    for label in range(3):
        scores[0, label].backward(retain_graph=True)
    matters.append(x.grad.abs().argmax().item())
print("loss %.4f, %s" % (loss.item(), matters))
print("done")

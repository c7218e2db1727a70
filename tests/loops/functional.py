# No modules: tensors, functions, an optimizer.
# iterations: 10
import torch
from torch.nn import functional as F

torch.manual_seed(0)
w1 = torch.randn(16, 8).mul_(0.3).requires_grad_()
b1 = torch.zeros(16, requires_grad=True)
w2 = torch.randn(1, 16).mul_(0.3).requires_grad_()
optimizer = torch.optim.SGD([w1, b1, w2], lr=0.05)
for step in range(10):
    x = torch.randn(32, 8)
    prediction = F.linear(F.relu(F.linear(x, w1, b1)), w2)
    loss = F.mse_loss(prediction, x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss %.4f" % loss.item())
print("done")

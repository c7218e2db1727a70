# Dies of an exception between a model's call and the step.
# iterations: 6
# status: 1
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for i in range(10):
    loss = model(torch.randn(16, 8)).pow(2).mean()
    if i == 6:
        print("loss %.4f" % loss.item(), flush=True)
        raise RuntimeError("nobody catches this")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

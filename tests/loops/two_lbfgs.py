# Two models that have nothing to do with each other, in turn.
# iterations: 8
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
x = torch.randn(64, 4)
targets = [torch.sin(x.sum(1, keepdim=True)), torch.cos(x.sum(1, keepdim=True))]
models = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)) for _ in range(2)]
optimizers = [torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4) for model in models]
for i in range(4):
    for model, optimizer, target in zip(models, optimizers, targets):

        def closure():
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), target)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
    print("pass %d loss %.4f" % (i, loss.item()))
print("done")

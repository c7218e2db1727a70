# A function around the model is compiled as a whole; a sub-module has a forward hook.
# iterations: 8
# torch: 2
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Sequential(nn.Linear(16, 16), nn.ReLU()), nn.Linear(16, 1))
model[1].register_forward_hook(lambda module, inputs, output: output * 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


@torch.compile(backend="aot_eager", fullgraph=True)
def loss_of(x):
    return (model(x) - x.sum(1, keepdim=True)).pow(2).mean()


for step in range(8):
    loss = loss_of(torch.randn(16, 8))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss %.4f" % loss.item())
print("done")

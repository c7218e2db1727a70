# torch.compile, through AOTAutograd; a sub-module has a forward hook that matters.
# iterations: 10
# torch: 2
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Sequential(nn.Linear(16, 16), nn.ReLU()), nn.Linear(16, 1))
model[2].register_forward_hook(lambda module, inputs, output: output * 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
compiled = torch.compile(model, backend="aot_eager")
for step in range(8):
    x = torch.randn(16, 8)
    loss = (compiled(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
compiled.eval()
with torch.no_grad():
    for i in range(2):
        prediction = compiled(torch.ones(16, 8))
print("loss %.4f prediction %.4f" % (loss.item(), prediction[0].item()))
print("done")

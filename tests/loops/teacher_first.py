# Distillation: the teacher is asked first, without gradients; its call is no iteration of its own.
# iterations: 10
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
student = nn.Linear(8, 4)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for step in range(10):
    x = torch.randn(16, 8)
    with torch.no_grad():
        target = F.softmax(teacher(x) / 2.0, dim=1)
    loss = F.kl_div(F.log_softmax(student(x) / 2.0, dim=1), target, reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss %.4f" % loss.item())
print("done")

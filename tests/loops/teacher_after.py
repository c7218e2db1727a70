# Distillation: the teacher is asked after the student.
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
    optimizer.zero_grad()
    output = student(x)
    with torch.no_grad():
        target = teacher(x).argmax(1)
    loss = F.cross_entropy(output, target)
    loss.backward()
    optimizer.step()
print("loss %.4f" % loss.item())
print("done")

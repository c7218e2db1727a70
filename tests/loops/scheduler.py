# Learning-rate schedulers, which wrap the optimizer's step in their own way.
# iterations: 12
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=12)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
for epoch in range(3):
    for i in range(4):
        x = torch.randn(16, 8)
        loss = nn.functional.l1_loss(model(x), x[:, :1])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    plateau.step(loss.item())
    print("epoch %d loss %.4f rate %.6f" % (epoch, loss.item(), optimizer.param_groups[0]["lr"]))
print("done")

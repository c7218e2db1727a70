"""A training, as small as one can be, for documents that say `python train.py`."""

try:
    import torch
except ImportError:
    print("trained without torch")
    raise SystemExit

model = torch.nn.Linear(1024, 1024)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for _ in range(12):
    optimizer.zero_grad()
    model(torch.ones(512, 1024)).square().mean().backward()
    optimizer.step()
print("trained")

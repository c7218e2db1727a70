"""accelerate: a loop in bfloat16, with accumulated gradients."""
from _common import exact, needs, show, weight_of

needs("torch", "accelerate")
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from accelerate import Accelerator  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

exact()
accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
x = torch.randn(2048, 64)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(x, x[:, :8] - x[:, 8:16]), batch_size=64)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(3):
    total = 0.0
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            loss = F.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        total += loss.item()
    show("loss", total / len(loader))
show("weights", weight_of(model))

"""A DataLoader whose worker processes make the data, without CUDA; only their parent uses the GPU."""
from _common import exact, needs, show, weight_of

needs("torch")
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402


class Waves(Dataset):
    def __len__(self):
        return 2048

    def __getitem__(self, index):
        x = torch.sin(torch.arange(64) * (1 + index % 37) / 10.0)
        return x, x[:8] - x[8:16]


if __name__ == "__main__":
    exact()
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.GELU(), torch.nn.Linear(512, 8)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        total = 0.0
        for x, y in DataLoader(Waves(), batch_size=128, num_workers=2, pin_memory=True):
            loss = F.mse_loss(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        show("loss", total)
    show("weights", weight_of(model))

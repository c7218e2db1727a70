# Worker processes that run a module of their own on the data; they are no part of this.
# iterations: 12
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Augmented(Dataset):
    def __init__(self):
        torch.manual_seed(1)
        self.transform = nn.Conv1d(1, 1, 3, padding=1)

    def __len__(self):
        return 48

    def __getitem__(self, index):
        x = torch.arange(8, dtype=torch.float32).add(index).div(48).view(1, 8)
        with torch.no_grad():
            return self.transform(x).view(8), x.mean()


if __name__ == "__main__":
    torch.manual_seed(0)
    loader = DataLoader(Augmented(), batch_size=8, num_workers=2, multiprocessing_context="fork")
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch %d loss %.4f" % (epoch, loss.item()))
    print("done")

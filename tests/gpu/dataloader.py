"""A DataLoader with forked workers and pinned memory; every batch arrives whole, in its order."""
import torch
from torch.utils.data import DataLoader, Dataset
from _common import DEVICE, perceptron, sgd, step


class Numbers(Dataset):
    def __len__(self):
        return 16 * 1024

    def __getitem__(self, index):
        return torch.full((64,), float(index % 257)), torch.full((8,), float(index % 3))


if __name__ == "__main__":
    torch.manual_seed(1)
    loader = DataLoader(Numbers(), batch_size=1024, num_workers=3, pin_memory=DEVICE == "cuda",
                        multiprocessing_context="fork")
    model = perceptron().to(DEVICE)
    optimizer = sgd(model)
    sums = []
    for epoch in range(2):
        for x, y in loader:
            x, y = x.to(DEVICE, non_blocking=True), y.to(DEVICE, non_blocking=True)
            step(model, optimizer, x / 257, y)
            sums.append(x.double().sum())
    wanted = [64.0 * sum(index % 257 for index in range(first, first + 1024)) for first in range(0, 16 * 1024, 1024)] * 2
    assert [one.item() for one in sums] == wanted
    print("ok DataLoader with forked workers and pinned memory, %d batches complete" % len(sums))

"""A training that mostly waits for its DataLoader. Usage: slow_data.py fork|spawn"""
import sys
import time

import torch
from torch import nn


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 100000

    def __getitem__(self, index):
        time.sleep(0.05)
        return torch.full((256,), float(index % 7))


def main():
    loader = torch.utils.data.DataLoader(Slow(), batch_size=4, num_workers=1, multiprocessing_context=sys.argv[1])
    model = nn.Linear(256, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in loader:
        loss = (model(batch) - batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()

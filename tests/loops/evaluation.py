# Epochs of training, each followed by an evaluation: every batch of either is an iteration.
# iterations: 24
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(48, 8)
data = TensorDataset(x, (x.sum(1) > 0).long())
training, validation = DataLoader(data, batch_size=8, shuffle=True), DataLoader(data, batch_size=24)
model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
for epoch in range(3):
    model.train()
    for inputs, labels in training:
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        optimizer.step()
    model.eval()
    correct = 0
    with torch.no_grad():
        for inputs, labels in validation:
            correct += (model(inputs).argmax(1) == labels).sum().item()
    print("epoch %d accuracy %.4f" % (epoch, correct / len(data)))
print("done")

# One model, two optimizers: one for its sparse gradients, one for the others.
# iterations: 10
import torch
from torch import nn


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(50, 8, sparse=True)
        self.items = nn.Embedding(80, 8, sparse=True)
        self.head = nn.Linear(16, 1)

    def forward(self, user, item):
        return self.head(torch.cat([self.users(user), self.items(item)], dim=1)).squeeze(1)


torch.manual_seed(0)
model = Recommender()
sparse = torch.optim.SparseAdam(list(model.users.parameters()) + list(model.items.parameters()), lr=0.01)
dense = torch.optim.Adam(model.head.parameters(), lr=0.01)
for step in range(10):
    user, item, rating = torch.randint(50, (32,)), torch.randint(80, (32,)), torch.rand(32)
    sparse.zero_grad()
    dense.zero_grad()
    loss = ((model(user, item) - rating) ** 2).mean()
    loss.backward()
    sparse.step()
    dense.step()
print("loss %.4f" % loss.item())
print("done")

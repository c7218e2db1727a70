# Soft actor-critic: target networks, and three optimizers that step one after the other, one of them for a single number.
# iterations: 9
import copy

import torch
from torch import nn

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2), nn.Tanh())
critic = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
target = copy.deepcopy(critic)
log_alpha = torch.zeros(1, requires_grad=True)
optimizers = [torch.optim.Adam(p, lr=1e-3) for p in (critic.parameters(), actor.parameters(), [log_alpha])]


def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


for i in range(9):
    state, action, reward, after = torch.randn(16, 6), torch.randn(16, 2), torch.randn(16, 1), torch.randn(16, 6)
    with torch.no_grad():
        value = reward + 0.9 * target(torch.cat([after, actor(after)], 1))
    q = update(optimizers[0], (critic(torch.cat([state, action], 1)) - value).pow(2).mean())
    chosen = actor(state)
    p = update(optimizers[1], (log_alpha.exp().detach() * chosen.pow(2).sum(1, keepdim=True)
                               - critic(torch.cat([state, chosen], 1))).mean())
    a = update(optimizers[2], (log_alpha * (chosen.detach().pow(2).sum(1).mean() - 0.5)).sum())
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), critic.parameters()):
            slow.lerp_(fast, 0.05)
print("critic %.4f actor %.4f temperature %.4f" % (q, p, a))
print("done")

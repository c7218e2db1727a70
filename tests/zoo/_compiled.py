"""A small training with torch.compile in one of its modes."""
from _common import exact, needs, own_caches, show, weight_of


def train(mode, steps=10):
    needs("torch", "triton")
    own_caches()
    import torch
    import torch.nn.functional as F
    exact(deterministic=False)
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 256)).cuda()
    compiled = torch.compile(model, mode=mode)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    x = torch.randn(2048, 256).cuda()
    losses = []
    for _ in range(steps):
        torch.compiler.cudagraph_mark_step_begin()
        loss = F.mse_loss(compiled(x), x.flip(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    show("losses", *losses)
    show("weights", weight_of(model))

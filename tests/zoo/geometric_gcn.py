"""torch_geometric: a graph convolution network tells two halves of a random graph apart."""
from _common import exact, needs, show

needs("torch", "torch_geometric")
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch_geometric.nn import GCNConv  # noqa: E402

exact()
NODES, EDGES = 1000, 8000
label = (torch.arange(NODES) >= NODES // 2).long()
begin = torch.randint(NODES, (EDGES,))
end = (begin // (NODES // 2)) * (NODES // 2) + torch.randint(NODES // 2, (EDGES,))  # in the same half
edges = torch.stack([begin, end]).cuda()
features, label = (torch.randn(NODES, 32) + 0.3 * label[:, None]).cuda(), label.cuda()
first, second = GCNConv(32, 64).cuda(), GCNConv(64, 2).cuda()
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01)
for step in range(30):
    scores = second(F.relu(first(features, edges)), edges)
    loss = F.cross_entropy(scores, label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        show("loss", loss.item())
show("found", (scores.argmax(1) == label).float().mean().item(), digits=2)

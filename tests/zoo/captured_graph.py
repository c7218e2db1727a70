"""A CUDA graph: captured once, replayed with new inputs."""
from _common import exact, needs, show

needs("torch")
import torch  # noqa: E402

exact()
model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.Linear(512, 512)).cuda()
x = torch.zeros(256, 512, device="cuda")
with torch.no_grad():
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x)
    sums = []
    for number in range(50):
        x.copy_(torch.full((256, 512), number / 50.0))
        graph.replay()
        sums.append(y.abs().sum().item())
    show("replays", *sums[::10])
    x.normal_()
    graph.replay()
    error = (y - model(x)).abs().max().item()
print("as without a graph:", error < 1e-4)

"""torch.save and torch.load of what is on the device, also of what an iteration made, bit for bit."""
import io

import torch
from _common import DEVICE, MIB, perceptron, sgd, vectors


def through_a_file(value, **options):
    file = io.BytesIO()
    torch.save(value, file)
    return torch.load(io.BytesIO(file.getvalue()), **options)


torch.manual_seed(1)
model = perceptron().to(DEVICE)
optimizer = torch.optim.Adam(model.parameters())
kept = []
for number, (x, y) in enumerate(vectors(10)):
    x, y = x.to(DEVICE), y.to(DEVICE)
    out = model(x)
    inside = torch.full((2 * MIB,), float(number), device=DEVICE)  # dies with the iteration
    kept.append((number, through_a_file(inside), through_a_file(inside, map_location="cpu")))
    del inside
    loss = (out - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if number == 4:
        saved = through_a_file({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
        assert all(torch.equal(a, b) for a, b in zip(saved["model"].values(), model.state_dict().values()))
        model = perceptron().to(DEVICE)
        model.load_state_dict(saved["model"])
        optimizer = torch.optim.Adam(model.parameters())
        optimizer.load_state_dict(saved["optimizer"])
for number, there, here in kept:
    assert there.device.type == DEVICE and here.device.type == "cpu"
    assert (there == number).all() and (here == number).all(), number
print("ok save and load, %d blocks and a checkpoint" % len(kept))

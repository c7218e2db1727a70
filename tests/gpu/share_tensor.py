"""A tensor on the device goes to another process: that works, or is refused with a word that says why."""
import torch
import torch.multiprocessing as multiprocessing
from _common import DEVICE, MIB, perceptron, sgd, vectors


def receive(connection):
    while True:
        tensor = connection.recv()
        if tensor is None:
            return
        connection.send(tensor.double().sum().item())
        del tensor


def send(connection, tensor):
    try:
        connection.send(tensor)
    except (RuntimeError, NotImplementedError) as error:
        print("refused: %s" % str(error).splitlines()[0])
        assert len(str(error)) > 20
        return
    assert connection.poll(45), "the other process does not answer"
    assert connection.recv() == tensor.double().sum().item()
    print("works")


if __name__ == "__main__":
    torch.manual_seed(1)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=receive, args=(theirs,))
    child.start()
    send(ours, torch.full((4 * MIB,), 3.0, device=DEVICE))
    model = perceptron().to(DEVICE)
    optimizer = sgd(model)
    for number, (x, y) in enumerate(vectors(8)):
        loss = (model(x.to(DEVICE)) - y.to(DEVICE)).square().mean()
        block = torch.full((4 * MIB,), float(number), device=DEVICE)  # where the lane would be
        if number in (1, 7):
            send(ours, block)
        del block
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ours.send(None)
    child.join(30)
    assert child.exitcode == 0, child.exitcode
    print("ok a tensor for another process: given or refused in words")

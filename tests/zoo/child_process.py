"""A spawned child uses CUDA, and so does its parent meanwhile."""
import multiprocessing

from _common import exact, needs, show


def work(seed):
    import torch
    exact()
    torch.manual_seed(seed)
    weights, first = torch.randn(512, 512, device="cuda") / 32, torch.randn(512, 512, device="cuda")
    x = first
    for _ in range(20 * seed):
        x = torch.tanh(x @ weights + first)
    return x.abs().mean().item()


def child(queue):
    queue.put(work(2))


if __name__ == "__main__":
    needs("torch")
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    show("parent", work(3))
    show("child", queue.get(timeout=60))
    process.join()
    print("status", process.exitcode)

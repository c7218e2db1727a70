"""Works through a queue, then answers requests that come now and then, then has a queue again. Says what it does."""

import time

import torch

model = torch.nn.Linear(64, 64).eval()


def call(pause_s, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        model(torch.ones(8, 64))
        if pause_s:
            time.sleep(pause_s)


with torch.no_grad():
    print("queue", flush=True)
    call(0, 1)
    print("server", flush=True)
    call(0.1, 2)
    print("queue again", flush=True)
    call(0, 11.5)
print("done")

# Ctrl-C in the middle of an iteration; the script tidies up and ends well.
# iterations: 4
import os
import signal

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
done = 0
try:
    for i in range(1000):
        loss = model(torch.randn(16, 8)).pow(2).mean()
        if i == 4:
            os.kill(os.getpid(), signal.SIGINT)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done += 1
except KeyboardInterrupt:
    print("interrupted after %d steps, loss %.4f" % (done, loss.item()))
print("done")

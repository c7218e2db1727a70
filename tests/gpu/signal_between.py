# contended
"""A signal's handler raises at any moment of a training loop, hundreds of times; what is trained afterwards is right."""
import random
import signal
import time

import torch
from _common import DEVICE, at_most, check_same_weights, exact, perceptron, sgd, step, train, vectors

ALARMS = 300


class Alarm(Exception):
    pass


def on_alarm(*_):
    global may_raise
    signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.003, 0.030))
    if may_raise:
        may_raise = False
        raise Alarm


at_most(80)
exact()
model, batches = perceptron(), [(x.to(DEVICE), y.to(DEVICE)) for x, y in vectors(12)]
_, reference = train(model, batches)
other = perceptron().to(DEVICE)
optimizer = sgd(other)
step(other, optimizer, *batches[0])
chance = random.Random(1)
caught = iterations = 0
may_raise = False
signal.signal(signal.SIGALRM, on_alarm)
signal.setitimer(signal.ITIMER_REAL, 0.003)
while caught < ALARMS:
    try:
        may_raise = True
        torch.set_grad_enabled(True)  # what was interrupted may have turned it off, and not come to turn it on again
        step(other, optimizer, *batches[iterations % len(batches)])
        time.sleep(0.0005)  # between iterations, too
        may_raise = False
    except Alarm:
        caught += 1
    iterations += 1
may_raise = False
signal.setitimer(signal.ITIMER_REAL, 0)
torch.set_grad_enabled(True)
_, trained = train(model, batches)
check_same_weights(trained, reference)
print("ok %d exceptions of a signal's handler, then a training as without" % ALARMS)

# alone
"""A job that idles in the middle of an iteration, after forward and before backward, must not hold up another for long.

The other is a process of its own, started here, which trains and reports its longest pause.
"""
import copy
import subprocess
import sys
import threading
import time

import torch.nn.functional as F
from _common import DEVICE, at_most, check_same_weights, exact, perceptron, sgd, step, train, vectors

IDLE_S, LONGEST_S = 6.0, 1.5


def run():
    """Trains until its input says "end", and tells the longest pause since "begin"."""
    exact()
    model, batches = perceptron().to(DEVICE), [(x.to(DEVICE), y.to(DEVICE)) for x, y in vectors(4)]
    optimizer = sgd(model)
    said = []

    def listen():
        for line in sys.stdin:
            said.append(line.strip())

    threading.Thread(target=listen, daemon=True).start()
    longest, iterations, last = 0.0, 0, None
    while "end" not in said:
        step(model, optimizer, *batches[iterations % len(batches)]).item()
        now = time.monotonic()
        if last is not None and "begin" in said:
            longest = max(longest, now - last)
        last = now
        iterations += 1
        if iterations == 30:
            print("ready", flush=True)
    print("%.3f %d" % (longest, iterations), flush=True)


def hold():
    exact()
    model, batches = perceptron(), vectors(12)
    _, reference = train(model, batches)
    other = subprocess.Popen([sys.executable, __file__, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(word):
        other.stdin.write(word + "\n")
        other.stdin.flush()

    try:
        assert other.stdout.readline() == "ready\n", "the other process does not run"
        model = copy.deepcopy(model).to(DEVICE)
        optimizer = sgd(model)
        for number, (x, y) in enumerate(batches):
            loss = F.mse_loss(model(x.to(DEVICE)), y.to(DEVICE))
            if number == 8:
                tell("begin")
                time.sleep(IDLE_S)
                tell("end")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        longest, iterations = other.stdout.readline().split()
        assert other.wait(30) == 0, other.returncode
    finally:
        if other.poll() is None:
            other.kill()
    check_same_weights(model, reference)
    print("the other's longest pause: %.2f s, after %s iterations" % (float(longest), iterations))
    if float(longest) > LONGEST_S:
        print("wrong: the other waited %.2f s for one that idles" % float(longest))
        sys.exit(1)
    print("ok idle for %g s in the middle of an iteration; another goes on within %g s" % (IDLE_S, LONGEST_S))


at_most(80)
run() if sys.argv[1:] == ["run"] else hold()

"""Jobs that do what they are told, line by line: bench/gpu writes to the pipe PREFIX.go, answers go to PREFIX.done as JSON."""

import json
import time


def serve(prefix, commands):
    """`commands`: functions of numbers, by name. Returns when the pipe is closed."""
    with open(prefix + ".done", "w") as done, open(prefix + ".go") as go:
        print(json.dumps("ready"), file=done, flush=True)
        for line in iter(go.readline, ""):
            name, *numbers = line.split()
            print(json.dumps(commands[name](*map(float, numbers))), file=done, flush=True)


def repeat(step, end):
    """Until that time on the monotonic clock; when each step ended."""
    ends = []
    while time.monotonic() < end:
        step()
        ends.append(time.monotonic())
    return ends

"""Runs every script of tests/loops without Salus, each in a child of this process, which has imported torch once.

Usage: run_alone.py DIRECTORY    writes DIRECTORY/NAME.alone.out and .alone.status: what the shell would see
"""
import os
import runpy
import sys
import traceback

import torch

LOOPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "loops")


def run(script, directory):
    """In the child; does not come back."""
    name = os.path.join(directory, os.path.basename(script))
    output = os.open(name + ".alone.out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    errors = os.open(name + ".alone.err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    sys.argv = [script]
    status = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


for entry in sorted(os.listdir(LOOPS)):
    if not entry.endswith(".py"):
        continue
    script = os.path.join(LOOPS, entry)
    with open(script) as text:
        needs_torch_2 = any(line.startswith("# torch: 2") for line in text)
    if needs_torch_2 and torch.__version__.startswith("1."):
        continue
    child = os.fork()
    if child == 0:
        run(script, sys.argv[1])
    _, status = os.waitpid(child, 0)
    with open(os.path.join(sys.argv[1], entry + ".alone.status"), "w") as file:
        file.write(str(os.waitstatus_to_exitcode(status)))

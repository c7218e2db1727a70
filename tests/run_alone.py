"""Runs scripts without Salus, each in a child of this process, which has imported torch once.

Usage: run_alone.py DIRECTORY SCRIPT...    writes DIRECTORY/NAME.alone.out and .alone.status: what the shell would see
"""
import os
import runpy
import sys
import traceback

import torch


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


for script in sys.argv[2:]:
    child = os.fork()
    if child == 0:
        run(script, sys.argv[1])
    _, status = os.waitpid(child, 0)
    with open(os.path.join(sys.argv[1], os.path.basename(script) + ".alone.status"), "w") as file:
        file.write(str(os.waitstatus_to_exitcode(status)))

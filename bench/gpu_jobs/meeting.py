"""Jobs that are to begin together."""

import os
import time


def add_arguments(parser):
    parser.add_argument("--ready", metavar="FILE", help="made when all is set up")
    parser.add_argument("--go", metavar="FILE", help="what is waited for then")


def meet(args, seconds=120):
    if args.ready:
        open(args.ready, "w").close()
    if args.go:
        wait_for(args.go, seconds)


def wait_for(path, seconds=120):
    late = time.monotonic() + seconds
    while not os.path.exists(path) and time.monotonic() < late:
        time.sleep(0.02)  # rarely: who is measured meanwhile may be on the same processor

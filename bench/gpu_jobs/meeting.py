"""Jobs that are to begin together."""

import os
import time


def add_arguments(parser):
    parser.add_argument("--ready", metavar="FILE", help="made when all is set up")
    parser.add_argument("--go", metavar="FILE", help="what is waited for then")


def meet(args, seconds=120):
    if args.ready:
        open(args.ready, "w").close()
    late = time.monotonic() + seconds
    while args.go and not os.path.exists(args.go) and time.monotonic() < late:
        time.sleep(0.002)

"""What must hold before a line of the documents is typed, and what has to come of it.

A promise is a generator: it makes ready, yields how the line is typed (arguments of Reader.types), and gets what was said. A line
without a comment may do without: it is typed while night and job 3 run, and must end with status 0.
"""

import re

PROMISES = {}


def promise(*texts):
    def put(function):
        for text in texts:
            PROMISES[text] = function
        return function

    return put


def by_default(reader, _line):
    reader.is_at_work()
    yield {}


# What prose names without its arguments; the words in capitals that stand for something.
COMPLETED = {
    "python -I": "python -I -c pass",
    "salus bench": "salus bench quick.csv",
    "salus bench FILE.csv": "salus bench quick.csv",
    "salus help COMMAND": "salus help run",
    "salus history clear": "salus history clear --all",
    "salus kill": "salus kill night",
    "salus kill --now": "salus kill --now night",
    "salus logs": "salus logs night",
    "salus pause": "salus pause night",
    "salus suspend": "salus suspend night",
    "salus policy NAME": "salus policy rr",
    "salus report": "salus report night",
    "salus resume": "salus resume night",
    "salus report JOB": "salus report night",
    "salus run": "salus run -- ./train",
    "salus run --memory 8GiB": "salus run --memory 8GiB -- ./train",
    "salus run --require": "salus run --require -- ./train",
    "salus run --shim off": "salus run --shim off -- ./train",
    "salus set": "salus set 3 weight=2",
    "salus set JOB class=batch": "salus set 3 class=batch",
    "salus sim": "salus sim --workload uniform:4",
    "salus sim --json": "salus sim --workload uniform:4 --json",
    "salus sim fuzz --canary": "salus sim fuzz --seeds 1..30 --canary forgets-memory",
    "salus sim fuzz --seeds A..B": "salus sim fuzz --seeds 1..20",
    "salus sim fuzz --seeds N --record bug.trace": "salus sim fuzz --seeds 7 --record bug.trace",
    "salus sim replay": "salus sim replay bug.trace",
    "salus start -- OPTIONS": "salus start -- --policy las",
    "salus trace": "salus trace now.json",
    "salus usage --user": "salus usage --user ada",
    "salus wait": "salus wait night",
    "salus wait JOB...": "salus wait first night",
    "packaging/glibc PREFIX": "packaging/glibc /run/walk",
}

# Lines that take too long: less of the same.
SHORTENED = {
    "salus bench bench/agreement.csv --policy all --simulate --lanes 1":  # two minutes
        "salus bench quick.csv --policy fifo,fair --simulate --lanes 1",
    "salus sim --workload salus-100 --policy all --capacity 16GiB":
        "salus sim --workload salus-100:30 --policy all --capacity 16GiB",
    "salus sim --workload salus-100 --policy all --capacity 16GiB --seed 1..20":  # 45 s of processor time
        "salus sim --workload salus-100 --policy fifo,srtf --capacity 16GiB --seed 1..20",
    "salus sim fuzz --seeds 1..100000": "salus sim fuzz --seeds 1..100",  # 30 s of processor time
}


def columns(text):
    """Of the table whose first line this is: two blanks separate them."""
    return re.split(r"\s{2,}", text.strip().split("\n")[0])

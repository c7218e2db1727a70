"""The section `overlap` of bench/gpu: many trainings at once, by the way they share the device.

As in gpu_inference.py, the processes of several ways are up at once and sleep, and each way runs in each round. The ways with MPS
come after those without, in processes of their own: all of them at once would not fit into the device's memory. Rates are of
iterations that ended on the device, each against the same training alone, natively; their sum is the device's work.
"""

import contextlib
import os
import statistics
import threading
import time

from gpu_common import OnDemand, Plain, PlainMps, device_memory_mib, iterations_between, say

SETTLE_S = 20  # of the ways that measure, before the first round
LEAD_S = 1.5  # from the command to the measurement: all are awake and at their pace
TAIL_S = 0.7  # and from its end to the end of the iterations, so that none waits for the last ones of others
ALONE_S = 2
REDECIDE_S = 10
OTHER_BATCH = 131072  # of the mlp: fills the device
LENGTHS = (1, 0.75, 0.6, 0.5, 0.42, 0.34, 0.25, 0.2, 0.17, 0.13, 0.1, 0.08)  # of jobs alone, in parts of --seconds


class Kind:
    """A training as it is started."""

    def __init__(self, name, model, *words):
        self.name, self.model, self.words = name, model, words


RESNET50 = Kind("resnet50", "resnet50")
MLP = Kind("mlp", "mlp")
BERT = Kind("bert", "bert", "--least-length", 32)
SLOW = Kind("slow loader", "resnet18", "--loader", 50)
SWITCHING = Kind("mlp", "mlp", "--other-batch", OTHER_BATCH)
TWELVE = [Kind("%s-%d" % (model, batch), model, "--batch", batch) for model, batch in (
    ("resnet50", 32), ("gpt", 16), ("resnet18", 64), ("lstm", 64), ("vae", 128), ("mlp", 64), ("cnn", 96), ("gpt", 4), ("resnet18", 32),
    ("vae", 192), ("mlp", 32768), ("cnn", 64))]
MIXES = {
    "8 resnet50": [RESNET50] * 8,
    "8 mlp": [MLP] * 8,
    "4 resnet50 + 4 mlp": [RESNET50, MLP] * 4,
    "8 bert": [BERT] * 8,
    "4 slow loaders": [SLOW] * 4,
    "12 lengths": TWELVE,
    "2 mlp, one switches": [SWITCHING] * 2,
}
TINY = {"8 resnet50": [RESNET50] * 2, "8 mlp": [MLP] * 3, "8 bert": [BERT] * 2, "12 lengths": TWELVE[:4]}
TINY_WORDS = {"--least-length": 8, "--loader": 20, "--other-batch": 2048}
GAIN = {"8 mlp": 1.2, "4 slow loaders": 1.2}  # against turns


def _groups(bench):
    """Ways whose processes are up at once."""
    def salus(overlap, mps="off"):
        return lambda: bench.service(lanes=None, mps=mps, options=["--overlap", overlap])

    groups = [{"slicing": lambda: Plain(bench.place), "turns": salus("off"), "Salus": salus("measure")}]
    if not bench.tiny:
        groups.append({"plain MPS": lambda: PlainMps(bench.place, bench.device), "Salus with MPS": salus("measure", "on")})
    groups = [{name: way for name, way in group.items() if not bench.ways or name in bench.ways} for group in groups]
    return [group for group in groups if group]


def _measures(way):
    return way.startswith("Salus")


class Failed(Exception):
    """A job did not do what it was told."""


class Set:
    """The trainings of one way."""

    def __init__(self, bench, way, prefix, kinds):
        self._bench, self._prefix, self.kinds, self.way = bench, prefix, kinds, way
        self._jobs, self.companies = [], {}

    def start(self):
        for number, kind in enumerate(self.kinds):
            words = list(kind.words)
            for name, value in TINY_WORDS.items():
                if self._bench.tiny and name in words:
                    words[words.index(name) + 1] = value
            command = self._bench.train(kind.model, "--warmup", 10, "--later", "--seed", number + 1, *words)
            self._jobs.append(OnDemand(self.way, self._bench.place, "%s-%d" % (self._prefix, number), command))

    def wait(self):
        """Until their libraries are read."""
        self._answers(self._jobs, 300)

    def begin(self):
        for job in self._jobs:
            job.tell("begin")
        self._answers(self._jobs, 300)

    def _answers(self, jobs, seconds):
        answers = []
        for job in jobs:
            answers.append(job.answer(seconds))
            if answers[-1] is None:
                self._bench.failed("overlap", self._prefix, job.job)
                raise Failed(job.job.name)
        return answers

    def train(self, windows, words="train", switches=(), only=None):
        """Iterations a second of each, or of only one, in each of the windows. Looks at the companies at the end of the last."""
        jobs = self._jobs if only is None else [self._jobs[only]]
        end = windows[-1][1] + TAIL_S
        for number, job in enumerate(jobs):
            job.tell(*((words, end, *switches) if words == "train" or number == 0 else ("train", end)))
        time.sleep(max(windows[-1][1] - time.monotonic(), 0))
        self.companies = self.look_at_companies()
        answers = self._answers(jobs, end - time.monotonic() + 60)
        return [[iterations_between(ends, *window) / (window[1] - window[0]) for ends in answers] for window in windows]

    def count(self, numbers):
        """How long it takes until all have done so many."""
        begin = time.monotonic() + LEAD_S
        for job, number in zip(self._jobs, numbers):
            job.tell("count", number, begin)
        answers = self._answers(self._jobs, 300)
        return [ends[-1] - begin for ends in answers]

    def look_at_companies(self):
        """Which of them run at once by decision, as `salus ps` has it: {job's number: the others}."""
        rows = self.way.rows() if hasattr(self.way, "rows") else []
        return {row["job"]: row["company"] for row in rows if row.get("company")}

    def end(self):
        for job in self._jobs:
            job.end()
        for job in self._jobs:
            job.job.wait(20)


@contextlib.contextmanager
def _sets(bench, mix, number, ways, kinds):
    """Of all ways, and of each kind alone. They read their libraries at once, and then begin one way after the other, so that
    the memory of each can be told."""
    distinct = list({kind.name: kind for kind in kinds}.values())
    with contextlib.ExitStack() as stack:
        sets = {}
        for name, way in {"alone": lambda: Plain(bench.place), **ways}.items():
            prefix = "overlap-%s-%d-%s" % ("-".join(mix.replace(",", "").split()), number, name.replace(" ", "-"))
            sets[name] = Set(bench, stack.enter_context(way()), prefix, distinct if name == "alone" else kinds)
            stack.callback(sets[name].end)
            sets[name].start()
        for one in sets.values():
            one.wait()
        yield sets


def _window(lead, seconds):
    begin = time.monotonic() + lead
    return begin, begin + seconds


def _alone(one, seconds):
    """Iterations a second of each kind."""
    return {kind.name: one.train([_window(LEAD_S, seconds)], only=number)[0][0] for number, kind in enumerate(one.kinds)}


def _work(one, rates, alone):
    """Of a second of the device, in seconds of each training alone."""
    return sum(rate / alone[kind.name] for kind, rate in zip(one.kinds, rates))


def _sizes(companies):
    """Of the companies: 4+2 for six jobs in two of them."""
    sets = {frozenset((job, *others)) for job, others in companies.items()}
    return "+".join(str(size) for size in sorted(map(len, sets), reverse=True)) or "-"


class Figures:
    """Of one mix: by way, one a round; and the peak of memory."""

    def __init__(self, bench, mix):
        self._bench, self._mix, self.by_way, self._memory = bench, mix, {}, {}

    def memory(self, way, mib):
        self._memory[way] = max(self._memory.get(way, 0), mib)

    def add(self, way, work, companies, **more):
        self.by_way.setdefault(way, []).append({"work": work, "companies": _sizes(companies)})
        say("overlap: %s: %s: work %.3f, %d MiB, companies %s" % (self._mix, way, work, self._memory.get(way, 0), _sizes(companies)))
        self._bench.results.add("overlap", mix=self._mix, way=way, work=work, memory_mib=self._memory.get(way),
                                companies=_sizes(companies), **more)

    def _median(self, way):
        return statistics.median(one["work"] for one in self.by_way[way])

    def rows(self):
        for way in self.by_way:
            works = [one["work"] for one in self.by_way[way]]
            against = []
            bases = {"turns": ("slicing",), "Salus": ("slicing", "turns"), "Salus with MPS": ("plain MPS", "slicing", "turns")}
            for base in bases.get(way, ()):
                if base in self.by_way:
                    against.append("%.3f of %s" % (self._median(way) / self._median(base), base))
                    if base == "plain MPS":
                        against[-1] += " in %.2f of its memory" % (self._memory[way] / max(self._memory[base], 1))
            goal = {"Salus": ">= 0.98 of the better" + (", >= %g of turns" % GAIN[self._mix] if self._mix in GAIN else ""),
                    "Salus with MPS": ">= 0.98 of plain MPS"}.get(way, "")
            yield [self._mix, way, "%.3f (%.3f .. %.3f)" % (statistics.median(works), min(works), max(works)), self._memory.get(way),
                   self.by_way[way][-1]["companies"], ", ".join(against), goal]


def _begin(bench, sets, figures):
    """All of them on the device, one way after the other; the memory of each, before it runs at length."""
    for name, one in sets.items():
        before, begun = device_memory_mib(bench.device), time.monotonic()
        one.begin()
        one.memory_mib = device_memory_mib(bench.device) - before
        figures.memory(name, one.memory_mib)
        say("overlap: %s: up in %.1f s, %d MiB" % (name, time.monotonic() - begun, one.memory_mib))


@contextlib.contextmanager
def _growth(bench, figures, way, one):
    """What a way takes beyond its memory so far, while only it runs."""
    before = most = device_memory_mib(bench.device)
    done = threading.Event()

    def watch():
        nonlocal most
        while not done.wait(0.5):
            most = max(most, device_memory_mib(bench.device))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        one.memory_mib += most - before
        figures.memory(way, one.memory_mib)


def _order(sets, turn):
    return [name for name in sets if name != "alone"][:: 1 if turn % 2 == 0 else -1]


def _rates(bench, sets, figures, number):
    for turn in range(bench.rounds):
        alone = _alone(sets["alone"], ALONE_S)
        for name in _order(sets, turn):
            one = sets[name]
            lead = SETTLE_S if turn == 0 and _measures(name) and not bench.tiny else LEAD_S
            with _growth(bench, figures, name, one):
                rates, = one.train([_window(lead, bench.seconds)])
            figures.add(name, _work(one, rates, alone), one.companies, set=number, round=turn, rates=rates, alone=alone,
                        seconds=bench.seconds)


def _lengths(bench, sets, figures, number):
    """Twelve jobs of different lengths, from the beginning to the end of the last one. In the first round nothing is known."""
    alone = _alone(sets["alone"], ALONE_S / 2)
    for turn in range(bench.rounds):
        for name in _order(sets, turn):
            one = sets[name]
            numbers = [max(round(alone[kind.name] * length * bench.seconds), 1) for kind, length in zip(one.kinds, LENGTHS)]
            with _growth(bench, figures, name, one):
                times = one.count(numbers)
            work = sum(count / alone[kind.name] for kind, count in zip(one.kinds, numbers)) / max(times)
            figures.add(name, work, one.companies, set=number, round=turn, times=times, numbers=numbers, alone=alone)


class Follow:
    """When the companies of a way change: (s, whether there are any)."""

    def __init__(self, one):
        self._one, self._end, self.changes = one, threading.Event(), []
        self._thread = threading.Thread(target=self._watch)

    def _watch(self):
        is_any = None
        while not self._end.wait(0.2):
            now, companies = time.monotonic(), bool(self._one.look_at_companies())
            if companies != is_any:
                self.changes.append((now, companies))
                is_any = companies

    def first(self, after, is_any):
        """How long it took until that was so; nothing if it never was."""
        state = [have for at, have in self.changes if at <= after]
        if state and state[-1] == is_any:
            return 0
        return next((at - after for at, have in self.changes if at > after and have == is_any), None)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()


def _switches(bench, sets, figures, number):
    """One of two small trainings has large batches for a while. How long until that is decided anew, and what is done before,
    meanwhile and afterwards; REDECIDE_S after each change."""
    job = sets["alone"]
    small, = _alone(job, ALONE_S).values()
    window = _window(LEAD_S, ALONE_S)
    large = job.train([window], words="switch", switches=(0, window[1] + TAIL_S), only=0)[0][0]
    rows = [["", "work before", "meanwhile", "afterwards", "apart after s", "together again after s"]]
    for name in _order(sets, 0):
        one = sets[name]
        before = _window(SETTLE_S if _measures(name) and not bench.tiny else LEAD_S, bench.seconds)
        pause = REDECIDE_S if _measures(name) and not bench.tiny else LEAD_S
        meanwhile = (before[1] + pause, before[1] + pause + bench.seconds)
        after = (meanwhile[1] + pause, meanwhile[1] + pause + bench.seconds)
        with Follow(one) as follow:
            rates = one.train([before, meanwhile, after], words="switch", switches=(before[1], meanwhile[1]))
        works = [(a / (large if now_large else small) + b / small) for (a, b), now_large in zip(rates, (False, True, False))]
        shown = ["-", "-"]
        if _measures(name):
            took = [follow.first(before[1], False), follow.first(meanwhile[1], True)]
            shown = ["never" if s is None else "%.1f" % s if s > 0 else "was so" for s in took]
            bench.results.add("overlap switch", way=name, apart_s=took[0], together_s=took[1], changes=follow.changes, works=works)
        rows.append([name, *("%.3f" % work for work in works), *shown])
        figures.add(name, statistics.mean(works), {}, set=number, rates=rates, small=small, large=large)
    bench.results.show("a training that has large batches for a while, beside a small one", rows, "to be decided within %d s"
                       % REDECIDE_S)


def _run_mix(bench, mix, kinds, figures):
    measure = _lengths if mix.startswith("12") else _switches if "switches" in mix else _rates
    for number in range(bench.sets or 1):
        for ways in _groups(bench):
            with _sets(bench, mix, number, ways, kinds) as sets:
                _begin(bench, sets, figures)
                measure(bench, sets, figures, number)


def overlap(bench):
    rows = [["", "", "work a second", "memory MiB", "companies", "against", "target"]]
    failures = 0
    for mix, kinds in MIXES.items():
        if not bench.wants(mix):
            continue
        figures, begun = Figures(bench, mix), time.monotonic()
        try:
            _run_mix(bench, mix, TINY.get(mix, kinds) if bench.tiny else kinds, figures)
        except (Failed, RuntimeError) as error:
            say("overlap, %s: %s" % (mix, error))
            failures += 1
        rows += figures.rows()
        say("overlap: %s took %.0f s" % (mix, time.monotonic() - begun))
    bench.results.show("trainings at once; %d x %d rounds of %g s: medians (spread)" % (bench.sets or 1, bench.rounds, bench.seconds),
                       rows, "work a second: sum over the trainings of rate / rate alone, natively")
    return failures

"""The sections `inference` and `beside` of bench/gpu: requests under slicing, plain MPS and Salus.

The processes of all ways are up at once and sleep; in each round every way answers the same requests, one way after the other. So
a round takes no longer than its measurements, and what differs between two processes that do the same is the same in all rounds;
`--sets` starts other processes.
"""

import contextlib
import statistics
import time

from gpu_common import OnDemand, Plain, PlainMps, device_memory_mib, iterations_between, quantile, say

APPLICATIONS = ("alexnet", "densenet121", "efficientnet_b0", "googlenet", "inception_v3", "mnasnet1_0", "mobilenet_v2",
                "mobilenet_v3_large", "resnet18", "resnet50", "resnext50_32x4d", "shufflenet_v2_x1_0", "squeezenet1_1", "vgg16")
TRAININGS = ("resnet50", "gpt", "mlp")
LEAD_S = 0.5  # from the command to the first request: a training beside it has begun by then
WARM_S = 3  # of requests before anything is measured: a service learns what its clients are


def _ways(bench):
    ways = {"slicing": lambda: Plain(bench.place)}
    if not bench.tiny:
        ways["plain MPS"] = lambda: PlainMps(bench.place, bench.device)
    ways["Salus"] = lambda: bench.service(lanes=None)
    if not bench.tiny:
        ways["Salus with MPS"] = lambda: bench.service(lanes=None, mps="on")
    return {name: way for name, way in ways.items() if not bench.ways or name in bench.ways}


class Failed(Exception):
    """A job did not do what it was told."""


class Set:
    """The applications and trainings of one way. `prefix` tells its jobs from those of other sets."""

    def __init__(self, bench, way, prefix):
        self._bench, self._way, self._prefix = bench, way, prefix
        self._jobs, self._starting = [], []
        self.applications, self.trainings = [], {}

    def start_applications(self, names):
        tiny = ("--tiny",) if self._bench.tiny else ()
        for number, name in enumerate(names):
            self.applications.append(self._start("%s-%d" % (name, number), self._bench.script(
                "answers.py", name, "--device", self._bench.device, *tiny)))

    def start_trainings(self, names):
        for name in names:
            environment = {}
            if name in ("jax", "cupy"):
                command = self._bench.script("framework.py", name)
                environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # there is one in each way's set
            elif name == "compiled":
                command = self._bench.train("resnet50", "--warmup", 10, "--compile", "reduce-overhead")
            else:
                command = self._bench.train(name, "--warmup", 10)
            self.trainings[name] = self._start("training-" + name, command, **environment)

    def _start(self, name, command, **environment):
        self._jobs.append(OnDemand(self._way, self._bench.place, "%s-%s" % (self._prefix, name), command, **environment))
        self._starting.append(self._jobs[-1])
        return self._jobs[-1]

    def wait_until_up(self, seconds=300):
        """For all that have been started since it was last called."""
        while self._starting:
            self._answer(self._starting.pop(0), seconds)

    def _answer(self, job, seconds):
        answer = job.answer(seconds)
        if answer is None:
            self._bench.failed("requests", self._prefix, job.job)
            raise Failed(job.job.name)
        return answer

    def measure(self, seconds, rate=0, seed=0, training=None):
        """Requests to all applications if there is a rate, beside a training if one is named."""
        begin = time.monotonic() + LEAD_S
        trains = self.trainings.get(training)
        asked = self.applications if rate else []
        if trains:
            trains.tell("train", begin + seconds)
        for number, application in enumerate(asked):
            application.tell("answer", begin, seconds, rate, 1000 * seed + number)
        figures = {}
        if asked:
            answers = [self._answer(application, seconds + 60) for application in asked]
            latencies = sum((answer["latencies"] for answer in answers), [])
            figures.update(mean=statistics.mean(latencies), **{"p%d" % p: quantile(latencies, p / 100) for p in (50, 90, 99)},
                           in_flight=statistics.mean(answer["busy_s"] for answer in answers) / seconds, latencies=latencies)
        if trains:
            figures["rate"] = iterations_between(self._answer(trains, seconds + 60), begin, begin + seconds) / seconds
        return figures

    def end(self):
        for job in self._jobs:
            job.end()
        for job in self._jobs:
            job.job.wait(20)


@contextlib.contextmanager
def _set(bench, way, prefix):
    with way as running:
        one = Set(bench, running, prefix)
        try:
            yield one
        finally:
            one.end()


def _brief(figures):
    return {key: round(value, 3) for key, value in figures.items() if key != "latencies"}


def _median(found, key, form="%.1f"):
    values = [figures[key] for figures in found]
    return (form + " (" + form + " .. " + form + ")") % (statistics.median(values), min(values), max(values))


def _ratio(found, base, key):
    return statistics.median(f[key] for f in found) / (statistics.median(f[key] for f in base) or 1)


def _pooled(found, share):
    return quantile(sum((figures["latencies"] for figures in found), []), share)


# --------------------------------------------------------------------------------------------------------- inference

BASES = {"Salus": "slicing", "Salus with MPS": "plain MPS"}


def inference(bench):
    """Many applications, each with few requests; at several rates, and beside a training."""
    names = [("cnn", "mlp", "gpt")[i % 3] if bench.tiny else APPLICATIONS[i % len(APPLICATIONS)] for i in range(bench.count)]
    cases = [(rate, training) for training in (None, *(bench.training or ())) for rate in bench.rates or (5,)]
    ups, found = {}, {}
    for number in range(bench.sets or 1):
        with contextlib.ExitStack() as stack:
            sets = {}
            for name, way in list(_ways(bench).items())[:: -1 if number % 2 == 0 else 1]:
                one = sets[name] = stack.enter_context(_set(bench, way(), "crowd-%d-%s" % (number, name.replace(" ", "-"))))
                before, begin = device_memory_mib(bench.device), time.monotonic()
                one.start_applications(names)
                one.wait_until_up()
                up = time.monotonic() - begin
                one.measure(WARM_S, rate=5)
                ups.setdefault(name, []).append({"up_s": up, "memory_mib": device_memory_mib(bench.device) - before})
                say("inference: set %d, %s: %s" % (number, name, _brief(ups[name][-1])))
                bench.results.add("inference up", set=number, way=name, count=bench.count, **ups[name][-1])
            for one in sets.values():
                one.start_trainings(bench.training or ())
            for one in sets.values():
                one.wait_until_up()
            for turn in range(bench.rounds):
                for rate, training in cases:
                    for name in list(sets)[:: 1 if turn % 2 == 0 else -1]:
                        figures = sets[name].measure(bench.seconds, rate, 100 * number + turn, training)
                        found.setdefault((rate, training), {}).setdefault(name, []).append(figures)
                        say("inference: %g/s beside %s, round %d, %s: %s" % (rate, training, turn, name, _brief(figures)))
                        bench.results.add("inference", set=number, round=turn, way=name, count=bench.count, requests_s=rate,
                                          training=training, seconds=bench.seconds, **figures)
    rows = [["", "all up s", "memory MiB", "against"]]
    for name, own in ups.items():
        base = ups.get(BASES.get(name))
        rows.append([name, _median(own, "up_s"), _median(own, "memory_mib", "%.0f"),
                     "up %.2f, memory %.3f of %s" % (*(_ratio(own, base, key) for key in ("up_s", "memory_mib")), BASES[name])
                     if base else "-"])
    bench.results.show("%d applications, %d sets of processes" % (bench.count, bench.sets or 1), rows)
    rows = [["requests/s", "beside", "", "mean ms", "p50", "p99", "p99 of all", "mean, p99 against", "training/s", "of its base"]]
    for (rate, training), by_way in found.items():
        for name, own in by_way.items():
            base = by_way.get(BASES.get(name))
            rows.append(["%g" % rate, training or "-", name, *(_median(own, key) for key in ("mean", "p50", "p99")),
                         "%.1f" % _pooled(own, 0.99),
                         "%.2f %.2f of %s" % (_ratio(own, base, "mean"), _ratio(own, base, "p99"), BASES[name]) if base else "-",
                         _median(own, "rate", "%.2f") if training else "-",
                         "%.3f" % _ratio(own, base, "rate") if training and base else "-"])
    bench.results.show("%d applications; %d x %d rounds of %g s: medians (spread)" % (
        bench.count, bench.sets or 1, bench.rounds, bench.seconds), rows)


# ------------------------------------------------------------------------------------------------------------ beside

def beside(bench):
    """Requests beside a training: what they wait, and what it loses."""
    requests = bench.model or ("cnn" if bench.tiny else "resnet50")
    trainings = bench.training or (("cnn",) if bench.tiny else TRAININGS)
    rate = (bench.rates or (20,))[0]
    found = {training: {} for training in trainings}
    for number in range(bench.sets or 1):
        with contextlib.ExitStack() as stack:
            sets = {name: stack.enter_context(_set(bench, way(), "beside-%d-%s" % (number, name.replace(" ", "-"))))
                    for name, way in {"native": lambda: Plain(bench.place), **_ways(bench)}.items()}
            for one in sets.values():
                one.start_applications([requests])
                one.start_trainings(trainings)
            for one in sets.values():
                one.wait_until_up()
            for one in sets.values():
                one.measure(WARM_S, rate)
            for turn in range(bench.rounds):
                seed = 100 * number + turn
                alone = sets["native"].measure(bench.seconds, rate, seed)
                for training in trainings:
                    with_rate = {**alone, **sets["native"].measure(bench.seconds / 2, training=training)}
                    found[training].setdefault("alone", []).append(with_rate)
                    for name in [way for way in sets if way != "native"][:: 1 if turn % 2 == 0 else -1]:
                        figures = sets[name].measure(bench.seconds, rate, seed, training)
                        figures["of_rate"] = figures["rate"] / with_rate["rate"]
                        figures["sum"] = figures["of_rate"] + alone["in_flight"]
                        found[training].setdefault(name, []).append(figures)
                        say("beside %s: round %d, %s: %s" % (training, turn, name, _brief(figures)))
                        bench.results.add("beside", training=training, requests=requests, requests_s=rate, set=number, round=turn,
                                          way=name, seconds=bench.seconds, alone=with_rate, **figures)
    for training, by_way in found.items():
        rows = [["", "p50 ms", "p90", "p99", "of alone", "p50 p90 p99 of all", "of alone", "iterations/s", "of alone",
                 "with requests in flight"]]
        base = by_way["alone"]
        pooled_base = [_pooled(base, share) for share in (0.5, 0.9, 0.99)]
        for name, own in by_way.items():
            pooled = [_pooled(own, share) for share in (0.5, 0.9, 0.99)]
            rows.append([name, *(_median(own, key) for key in ("p50", "p90", "p99")),
                         " ".join("%.2f" % _ratio(own, base, key) for key in ("p50", "p90", "p99")),
                         " ".join("%.1f" % value for value in pooled),
                         " ".join("%.2f" % (value / before) for value, before in zip(pooled, pooled_base)),
                         _median(own, "rate", "%.2f"),
                         _median(own, "of_rate", "%.3f") if name != "alone" else "",
                         _median(own, "sum", "%.3f") if name != "alone" else _median(own, "in_flight", "%.3f")])
        bench.results.show("%s requests, %g a second, beside a training of %s; %d x %d rounds of %g s: medians (spread)" % (
            requests, rate, training, bench.sets or 1, bench.rounds, bench.seconds), rows,
            "last column: the training's share of its rate, and the share of time with a request in flight when alone")

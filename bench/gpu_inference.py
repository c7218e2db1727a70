"""The sections `inference` and `beside` of bench/gpu: requests under slicing, plain MPS and Salus, in rounds, one after another."""

import os
import statistics
import time

from gpu_common import Plain, PlainMps, device_memory_mib, quantile, say, start_together, wait_for_all

APPLICATIONS = ("alexnet", "densenet121", "efficientnet_b0", "googlenet", "inception_v3", "mnasnet1_0", "mobilenet_v2",
                "mobilenet_v3_large", "resnet18", "resnet50", "resnext50_32x4d", "shufflenet_v2_x1_0", "squeezenet1_1", "vgg16")
TRAININGS = ("resnet50", "gpt", "mlp")


def _ways(bench):
    ways = {"slicing": lambda: Plain(bench.place)}
    if not bench.tiny:
        ways["plain MPS"] = lambda: PlainMps(bench.place, bench.device)
    ways["Salus"] = lambda: bench.service(lanes=None)
    if not bench.tiny:
        ways["Salus with MPS"] = lambda: bench.service(lanes=None, mps="on")
    return {name: way for name, way in ways.items() if not bench.ways or name in bench.ways}


def _answers(bench, way, name, model, go, rate, seed):
    tiny = ("--tiny",) if bench.tiny else ()
    return way.start(name, bench.script("answers.py", model, "--rate", rate, "--seconds", bench.seconds, "--seed", seed,
                                        "--device", bench.device, *tiny, *bench.meeting(name, go)))


def _latencies(jobs):
    return [latency for job in jobs for latency in job.result()["latencies"]]


def _figures(latencies):
    return {"mean": statistics.mean(latencies), "p50": quantile(latencies, 0.5), "p90": quantile(latencies, 0.9),
            "p99": quantile(latencies, 0.99)}


def _median(rounds, key, form="%.1f"):
    values = [figures[key] for figures in rounds]
    return (form + " (" + form + " .. " + form + ")") % (statistics.median(values), min(values), max(values))


# --------------------------------------------------------------------------------------------------------- inference

def _crowd(bench, way, label):
    """`bench.count` applications at once; nothing if one failed."""
    names = [("cnn", "mlp", "gpt")[i % 3] if bench.tiny else APPLICATIONS[i % len(APPLICATIONS)] for i in range(bench.count)]
    go = "go-%d" % time.monotonic_ns()
    with way as running:
        before, begin = device_memory_mib(bench.device), time.monotonic()
        jobs = [_answers(bench, running, "%s-%s-%d" % (go, name, i), name, go, bench.rate, i) for i, name in enumerate(names)]
        start_together(jobs, os.path.join(bench.place, go), 300)
        up = time.monotonic() - begin
        time.sleep(bench.seconds / 2)
        memory = device_memory_mib(bench.device) - before
        wait_for_all(jobs, bench.seconds + 60)
    for job in jobs:
        if job.status() != 0 or not job.result():
            bench.failed("inference", label, job)
            return None
    return {**_figures(_latencies(jobs)), "up_s": up, "memory_mib": memory}


def inference(bench):
    """Many applications, each with few requests."""
    ways = _ways(bench)
    rounds = {name: [] for name in ways}
    for number in range(bench.rounds):
        for name in list(ways)[:: 1 if number % 2 == 0 else -1]:
            figures = _crowd(bench, ways[name](), name)
            if figures:
                rounds[name].append(figures)
                say("inference: round %d, %s: %s" % (number, name, {key: round(value, 1) for key, value in figures.items()}))
                bench.results.add("inference", round=number, way=name, count=bench.count, rate=bench.rate, **figures)
    rows = [["", "mean ms", "p50", "p99", "all up s", "memory MiB", "mean, p99 against"]]
    for name, base in (("slicing", None), ("Salus", "slicing"), ("plain MPS", None), ("Salus with MPS", "plain MPS")):
        if not rounds.get(name):
            continue
        against = "-"
        if base and rounds.get(base):
            ratio = [statistics.median(f[key] for f in rounds[name]) / (statistics.median(f[key] for f in rounds[base]) or 1)
                     for key in ("mean", "p99", "up_s", "memory_mib")]
            against = "%.2f %.2f of %s; up %.2f, memory %.2f" % (*ratio[:2], base, *ratio[2:])
        rows.append([name, _median(rounds[name], "mean"), _median(rounds[name], "p50"), _median(rounds[name], "p99"),
                     _median(rounds[name], "up_s"), _median(rounds[name], "memory_mib", "%.0f"), against])
    bench.results.show("%d applications, %g requests a second each, %g s; medians of %d rounds (spread)" % (
        bench.count, bench.rate, bench.seconds, bench.rounds), rows)


# ------------------------------------------------------------------------------------------------------------ beside

def _beside(bench, way, training, requests, rate):
    """Requests beside a training; without one of the two if it is None. Nothing if something failed."""
    stamp = "%d" % time.monotonic_ns()
    until = os.path.join(bench.place, "until-" + stamp)
    with way as running:
        jobs, trains, answers = [], None, None
        if training:
            trains = running.start("training-" + stamp, bench.train(
                training, "--until", until, "--warmup", 10, *bench.meeting("training-" + stamp, "go-" + stamp)))
            jobs.append(trains)
        if requests:
            answers = _answers(bench, running, "answers-" + stamp, requests, "go-" + stamp, rate, 1)
            jobs.append(answers)
        start_together(jobs, os.path.join(bench.place, "go-" + stamp), 180)
        begin = time.monotonic()
        if answers:
            answers.wait(bench.seconds + 120)
        else:
            time.sleep(bench.seconds)
        end = time.monotonic()
        open(until, "w").close()
        wait_for_all(jobs, 60)
    for job in jobs:
        if job.status() != 0 or not job.result():
            bench.failed("beside", training or requests, job)
            return None
    figures = {}
    if answers:
        result = answers.result()
        figures.update(_figures(result["latencies"]), in_flight=result["busy_s"] / (result["end"] - result["begin"]))
        begin, end = result["begin"], result["end"]
    if trains:
        figures["rate"] = sum(begin <= at < end for at in trains.result()["ends"]) / (end - begin)
    return figures


def beside(bench):
    """Requests beside a training: what they wait, and what it loses."""
    requests = bench.model or ("cnn" if bench.tiny else "resnet50")
    rate = bench.rate
    for training in bench.training or (("cnn",) if bench.tiny else TRAININGS):
        ways = _ways(bench)
        rounds = {name: [] for name in ("alone", *ways)}
        for number in range(bench.rounds):
            alone = _beside(bench, Plain(bench.place), None, requests, rate)
            trains = _beside(bench, Plain(bench.place), training, None, rate)
            if not alone or not trains:
                return 1
            alone["rate"] = trains["rate"]
            rounds["alone"].append(alone)
            for name in list(ways)[:: 1 if number % 2 == 0 else -1]:
                figures = _beside(bench, ways[name](), training, requests, rate)
                if figures:
                    figures["of_rate"] = figures["rate"] / alone["rate"]
                    figures["sum"] = figures["of_rate"] + alone["in_flight"]
                    rounds[name].append(figures)
                    say("beside %s: round %d, %s: %s" % (training, number, name,
                                                       {key: round(value, 3) for key, value in figures.items()}))
                    bench.results.add("beside", training=training, requests=requests, round=number, way=name, alone=alone,
                                      **figures)
        rows = [["", "p50 ms", "p90", "p99", "of alone", "iterations/s", "of alone", "with requests in flight"]]
        middle = {key: statistics.median(f[key] for f in rounds["alone"]) for key in ("p50", "p90", "p99")}
        for name, found in rounds.items():
            if not found:
                continue
            ratios = " ".join("%.2f" % (statistics.median(f[key] for f in found) / middle[key]) for key in ("p50", "p90", "p99"))
            rows.append([name, _median(found, "p50"), _median(found, "p90"), _median(found, "p99"), ratios,
                         _median(found, "rate", "%.2f"),
                         _median(found, "of_rate", "%.3f") if name != "alone" else "",
                         _median(found, "sum", "%.3f") if name != "alone" else _median(found, "in_flight", "%.3f")])
        bench.results.show("%s requests, %g a second, beside a training of %s; %g s, medians of %d rounds (spread)" % (
            requests, rate, training, bench.seconds, bench.rounds), rows,
            "last column: the training's share of its rate, and the share of time with a request in flight when alone")

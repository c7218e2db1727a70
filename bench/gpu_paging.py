"""bench/gpu paging: how fast two jobs change places, whether nothing is lost, and what paging costs if it is not used."""

import os
import re
import statistics
import subprocess
import time

from gpu_common import SALUS, OnDemand, Plain, eventually, say, start_together, wait_for_all

EVENT = re.compile(r"@(\d+) ([\w-]+)(.*)")
ACTION = re.compile(r"  ([\w-]+)(.*)")


def trace_of(service):
    """(seconds, name, fields) of each event and action, in order."""
    pieces = sorted((name for name in os.listdir(service.state) if re.fullmatch(r"trace(\.\d+)?", name)),
                    key=lambda name: -int(name.partition(".")[2] or 0))
    now, found = 0.0, []
    for piece in pieces:
        for line in open(os.path.join(service.state, piece), errors="replace"):
            event, action = EVENT.match(line), ACTION.match(line)
            if event:
                now = int(event[1]) / 1e9
            if event or action:
                name, fields = (event[2], event[3]) if event else (action[1], action[2])
                found.append((now, name, dict(field.split("=", 1) for field in fields.split() if "=" in field)))
    return found


def moves_of(trace):
    """Page-outs and page-ins that were done: (begin, end, bytes, which)."""
    begun, moves = {}, []
    for at, name, fields in trace:
        client = fields.get("client")
        if name in ("page-out", "page-in"):
            begun[client] = (at, int(fields["persistent"]), name)
        elif name in ("paged-out", "paged-in") and client in begun:
            begin, size, which = begun.pop(client)
            moves.append((begin, at, size, which))
        elif name == "unpageable":
            begun.pop(client, None)
    return moves


def gibibytes_per_s(moves):
    return [size / max(end - begin, 1e-9) / 1e9 for begin, end, size, _ in moves if size > 0]


def exchange(bench):
    """Two jobs of which one fits: `salus set` makes one displace the other, again and again."""
    gib, switches = (0.25, 4) if bench.tiny else (16, 8)
    capacity = "%dMiB" % (int(gib * 1024 * 1.08) + (300 if bench.tiny else 3000))
    rates = Plain(bench.place).start("copy-rates", bench.script("copy_rates.py", min(gib, 4), *(["cpu"] if bench.tiny else [])))
    rates.wait(120)
    bare = rates.result()
    stop = os.path.join(bench.place, "stop-exchange")
    options = ["--capacity", capacity, *([] if bench.tiny else ["--page-gpu", "on"])]
    with bench.service(policy="priority", options=options) as service:
        # Jobs start only where there is room: so both start small, and take their memory one after the other.
        jobs = []
        for side in (0, 1):
            name = "pages-%d" % side
            jobs.append(service.start(name, bench.script(
                "pages.py", gib, "--until", stop, "--device", bench.device, "--seed", side + 1,
                *bench.meeting(name, name + ".go"))))
        eventually(lambda: all(os.path.exists(job.path + ".ready") for job in jobs)
                   or any(job.status() is not None for job in jobs), 120)
        for job in jobs:
            open(job.path + ".go", "w").close()
            eventually(lambda: "ready" in job.out or job.status() is not None, 120)
        for number in range(switches):
            side = number % 2
            for name, priority in (("pages-%d" % side, 5), ("pages-%d" % (1 - side), 0)):
                subprocess.run([SALUS, "set", name, "priority=%d" % priority], env=service.environment(),
                               capture_output=True, timeout=10)
            time.sleep(1.5 if bench.tiny else 4)
        open(stop, "w").close()
        wait_for_all(jobs, 120)
        trace = trace_of(service)
    failures = 0
    for job in jobs:
        if job.status() != 0 or job.result().get("wrong", 1) != 0:
            bench.failed("paging", "exchange", job)
            failures += 1
    moves = moves_of(trace)
    kernels = sorted(at for job in jobs for at in job.result().get("first", []))
    delays = []
    for begin, _, _, which in moves:
        if which == "page-out":
            after = [at for at in kernels if at > begin]
            delays += [after[0] - begin] if after else []
    rows = [["", "times", "median", "least", "most", "target"]]

    def add(title, values, form, target=""):
        if values:
            rows.append([title, len(values), form % statistics.median(values), form % min(values), form % max(values), target])

    outs = [move for move in moves if move[3] == "page-out"]
    ins = [move for move in moves if move[3] == "page-in"]
    add("out, GB/s", gibibytes_per_s(outs), "%.1f", ">= 48")
    add("in, GB/s", gibibytes_per_s(ins), "%.1f", ">= 48")
    add("from the decision to the first kernel, s", delays, "%.3f", "<= 0.45 for 16 GiB")
    for kind, found in sorted(bare.items()):
        rows.append(["bare copies, %s: out, in, both, GB/s" % kind, 3, " ".join("%.1f" % (found[way] / 1e9)
                                                                          for way in ("out", "in", "both")), "", "", ""])
    bench.results.add("paging", case="exchange", gib=gib, out_gb_s=gibibytes_per_s(outs), in_gb_s=gibibytes_per_s(ins),
                      delays_s=delays, bare=bare)
    bench.results.show("two jobs of %g GiB change places" % gib, rows)
    return failures + (not outs or not ins)


def same_weights(bench):
    """Four trainings, memory for two: their weights are those of running alone."""
    models = ("resnet18", "gpt", "lstm", "vae")
    iterations = 20 if bench.tiny else 200

    def run(case, way):
        go = "paging-%s.go" % case
        jobs = {}
        for model in models:
            name = "paging-%s-%s" % (case, model)
            jobs[model] = way.start(name, bench.train(model, "--iterations", iterations, "--deterministic",
                                                      *bench.meeting(name, go)))
        start_together(list(jobs.values()), os.path.join(bench.place, go), 90)
        wait_for_all(list(jobs.values()), 200)
        for job in jobs.values():
            if job.status() != 0:
                bench.failed("paging", case, job)
        return {model: job.result().get("weights") for model, job in jobs.items()}

    alone = run("alone", Plain(bench.place))
    # As it comes, clients stay for long. A rate that is far too high makes them change places all the time.
    options = ["--capacity", "1GiB" if bench.tiny else "5GiB", "--min-turn-ms", "0",
               *([] if bench.tiny else ["--page-gpu", "on"])]
    with bench.service(policy="rr", options=options) as service:
        paged = run("paged", service)
        moves = moves_of(trace_of(service))
    outs = sum(move[3] == "page-out" for move in moves)
    rows = [["model", "weights"]]
    rows += [[model, "same" if paged[model] and paged[model] == alone[model] else "DIFFERENT"] for model in models]
    bench.results.add("paging", case="weights", page_outs=outs, same=[row[1] == "same" for row in rows[1:]])
    bench.results.show("four trainings that do not fit together: weights against running alone", rows, "%d page-outs" % outs)
    return sum(row[1] != "same" for row in rows[1:])


def unused(bench):
    """A training alone: with paging on and off, in turns."""
    rows = [["model", "paging on / off", "target"]]
    for model, warmup, block, blocks in (("resnet50", 30, 10, 8), ("gpt", 30, 15, 8)):
        on = bench.service(options=[] if bench.tiny else ["--page-gpu", "on"])
        with bench.service() as without, on as paging:
            trainings = {name: OnDemand(way, bench.place, "unused-%s-%s" % (model, name), bench.train(
                model, "--warmup", warmup, "--processors", bench.processors(0))) for name, way in
                (("off", without), ("on", paging))}
            if not all([training.answer(150) for training in trainings.values()]):
                say("paging, unused: %s did not start" % model)
                continue
            ratios = []
            for turn in range(blocks):
                times = {}
                for name in list(trainings)[:: 1 if turn % 2 == 0 else -1]:
                    times[name] = statistics.median(trainings[name].ask("block", block))
                ratios.append(times["on"] / times["off"])
            for training in trainings.values():
                training.end()
                training.job.wait(20)
        rows.append([model, "%.4f" % statistics.median(ratios), "<= 1.005"])
        bench.results.add("paging", case="unused", model=model, ratios=ratios)
    bench.results.show("a training alone, paging on but not used", rows)


def paging(bench):
    failures = 0
    for case, run in (("exchange", exchange), ("weights", same_weights), ("unused", unused)):
        if bench.wants(case):
            failures += run(bench) or 0
    return failures

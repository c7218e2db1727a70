"""The sections `cost` and `starts` of bench/gpu: what the shim and the hooks cost a job that is alone, and what starting costs."""

import statistics

from gpu_common import Plain, say

# The most that the shim may cost, and the seconds of a stretch: launch-bound work drifts from second to second.
MODELS = [("resnet50", 1.003, 1), ("jax", 1.003, 1), ("mlp", 1.01, 0.2)]
STARTS = 7
FIRST_KERNEL_MS = 50


def _ratios(times, mode):
    """Of neighbouring stretches: the machine's own changes are in both."""
    return [with_it / without for without, with_it in zip(times["neither"], times[mode])]


def cost(bench):
    rows = [["model", "ms without", "part", "ratio", "standard error", "stretches", "target"]]
    words = ("--device", "cpu", "--tiny") if bench.tiny else ()
    with bench.service() as salus:
        for model, target, stretch in MODELS:
            if not bench.wants(model) or bench.tiny and model == "jax":
                continue
            job = salus.start("cost-" + model, bench.script("cost.py", model, "--seconds", 4 * bench.seconds,
                                                                "--stretch", stretch, *words))
            job.wait(4 * bench.seconds + 120)
            if job.status() != 0:
                bench.failed("cost", model, job)
                continue
            times = job.result()["times"]
            for mode in [mode for mode in times if mode != "neither"]:
                ratios = _ratios(times, mode)
                error = statistics.stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else float("nan")
                rows.append([model, "%.3f" % statistics.median(times["neither"]), mode, "%.4f" % statistics.median(ratios),
                             "%.4f" % error, len(ratios), "<= %g" % target if mode == "shim" else ""])
            bench.results.add("cost", model=model, **times)
    bench.results.show("parts of Salus switched off and on inside one process: time of an iteration", rows)


def starts(bench):
    rows = [["", "native s", "Salus s", "difference ms", "spread ms", "target"]]
    if bench.tiny:
        return
    with Plain(bench.place) as native, bench.service() as salus:
        for kind in ("torch", "jax"):
            if not bench.wants(kind):
                continue
            took = {native: [], salus: []}
            for number in range(STARTS + 1):  # the first fills the caches
                for way in (native, salus) if number % 2 else (salus, native):
                    job = way.start("first-%s-%d-%d" % (kind, number, way is salus), bench.script("first.py", kind))
                    job.wait(60)
                    if job.status() != 0:
                        bench.failed("starts", kind, job)
                    elif number > 0:
                        took[way].append(float(job.last_line()) - job.started)
            if not all(took.values()):
                continue
            apart = [1000 * (under - without) for without, under in zip(took[native], took[salus])]
            rows.append([kind, "%.2f" % statistics.median(took[native]), "%.2f" % statistics.median(took[salus]),
                         "%.0f" % statistics.median(apart), "%.0f .. %.0f" % (min(apart), max(apart)),
                         "<= %d" % FIRST_KERNEL_MS])
            say("starts: %s: %s" % (kind, rows[-1][1:]))
            bench.results.add("starts", kind=kind, native=took[native], salus=took[salus])
    bench.results.show("from the start of the command to the end of its first kernel", rows)


"""The section `frameworks` of bench/gpu: programs of several frameworks share a GPU, none of which knows of Salus."""

import os
import shutil
import statistics
import subprocess
import threading
import time

from gpu_common import JOBS, Plain, device_memory_mib, say, start_together, wait_for_all

KINDS = ("jax", "cupy", "triton", "cuda")
MIXES = [("jax", "resnet"), ("cupy", "resnet"), ("triton", "cuda"), ("jax", "cupy", "triton", "resnet")]
CAPACITY_MIB = 24 * 1024
ALONE_S = 5  # nothing is divided there, so nothing is counted in turns


class Peak:
    """The most device memory in use while it lives."""

    def __enter__(self):
        self.mib = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self):
        while not self._end.wait(0.2):
            self.mib = max(self.mib, device_memory_mib("cuda"))

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()


def _command(bench, kind, name, go, seconds):
    ready = os.path.join(bench.place, name + ".ready")
    if kind == "cuda":
        return [os.path.join(bench.place, "framework"), "30", str(seconds), ready, go]
    return bench.script("framework.py", kind, "--seconds", seconds, "--ready", ready, "--go", go)


def _shares_of_time(running, jobs, seconds):
    """What each job was given, by the service's count, over nearly all of the measurement: a turn may last a second. Nothing if one
    was not there."""
    def read():
        return {row["name"]: row["attained_s"] for row in running.rows()}

    time.sleep(0.05 * seconds)
    before = read()
    time.sleep(0.9 * seconds)
    after = read()
    if not all(job.name in before and job.name in after for job in jobs):
        return []
    held = [after[job.name] - before[job.name] for job in jobs]
    return [one / sum(held) for one in held] if sum(held) > 0 else []


def _together(bench, case, kinds, way, seconds):
    """Their results, their shares of the time and the memory; or nothing if one failed."""
    times = []
    go = os.path.join(bench.place, "go-%s-%d" % (case.replace(" ", "-"), time.monotonic_ns()))
    with way as running, Peak() as peak:
        before = device_memory_mib("cuda")
        jobs = []
        for number, kind in enumerate(kinds):
            name = "%s-%s-%d" % (os.path.basename(go), kind, number)
            jobs.append(running.start(name, _command(bench, kind, name, go, seconds), CUBLAS_WORKSPACE_CONFIG=":4096:8"))
        start_together(jobs, go, 120)
        if hasattr(running, "rows"):
            times = _shares_of_time(running, jobs, seconds)
        wait_for_all(jobs, seconds + 60)
    for job in jobs:
        if job.status() != 0 or not job.result():
            bench.failed("frameworks", case, job)
    if any(job.status() != 0 or not job.result() for job in jobs):
        return None
    return [job.result() for job in jobs], times, peak.mib - before


def frameworks(bench):
    """Shares are rates against the same program alone: 1/n each would be fair."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    kinds = KINDS
    try:
        subprocess.run([nvcc, "-O2", "-o", os.path.join(bench.place, "framework"), os.path.join(JOBS, "framework.cu")], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        say("frameworks: no C++ program: %s" % error)
        kinds = tuple(kind for kind in KINDS if kind != "cuda")
    alone, failures = {}, 0
    cases = [(kind,) * count for kind in kinds for count in (1, 2, 4)]
    cases += [mix for mix in MIXES if all(kind in (*kinds, "resnet") for kind in mix)]
    cases = {" + ".join(case) if len(set(case)) > 1 else "%d %s" % (len(case), case[0]): case for case in cases}
    cases = {name: case for name, case in cases.items() if bench.wants(name)}
    for kind in sorted({kind for case in cases.values() for kind in case}):
        found = _together(bench, kind + " alone", (kind,), Plain(bench.place), min(bench.seconds, ALONE_S))
        if found:
            alone[kind] = found[0][0]
            say("frameworks: %s alone: %s" % (kind, alone[kind]))
    rows = [["", "share of each, times n", "sum", "share of the time, times n", "results", "first kernel s (alone)", "memory MiB"]]
    for name, case in cases.items():
        if not all(kind in alone for kind in case) or not bench.wants(name):
            continue
        found = _together(bench, name, case, bench.service(options=["--capacity", "%dMiB" % CAPACITY_MIB]), bench.seconds)
        if not found:
            failures += 1
            continue
        results, times, memory = found
        shares = [result["rate"] / alone[result["kind"]]["rate"] for result in results]
        same = all(result["digest"] == alone[result["kind"]]["digest"] for result in results)
        within = memory <= CAPACITY_MIB
        failures += (not same) + (not within)
        rows.append([name, " ".join("%.3f" % (share * len(case)) for share in shares), "%.3f" % sum(shares),
                     " ".join("%.3f" % (share * len(case)) for share in times),
                     "same" if same else "DIFFERENT", "%.1f (%.1f)" % (
                         statistics.median(result["first_s"] for result in results), alone[case[0]]["first_s"]),
                     "%d%s" % (memory, "" if within else " TOO MUCH")])
        bench.results.add("frameworks", case=name, shares=shares, times=times, same=same, memory_mib=memory)
        say("frameworks: %s: %s" % (name, rows[-1][1:]))
    bench.results.show("programs without an adaptor, under Salus in %d MiB, policy fair; %g s" % (CAPACITY_MIB, bench.seconds),
                       rows, "share: rate against the same program alone, without Salus; of the time: by the service's count; "
                       "times n, 1 is fair")
    return failures

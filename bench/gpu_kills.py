"""The section `kills` of bench/gpu: whoever dies or stops while gates are closed, a training goes on."""

import os
import signal
import subprocess
import time

from gpu_common import OnDemand, eventually, say

TIMES = 20
TARGET_MS = 200
REQUEST_S = 0.1
KILL_AFTER_S = 0.06  # of a request's begin: gates are closed then
STANDS_STILL_MS = 15  # several iterations of the training


def _descendants(pid):
    """Of a `salus run`: the program it has started, and what that has."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
    return [pid for child in map(int, found) for pid in (child, *_descendants(child))]


def _kill(victim, program, service):
    now = time.monotonic()
    if victim == "stopped":
        for pid in program:
            os.kill(pid, signal.SIGSTOP)
    elif victim != "service":
        for pid in program:
            os.kill(pid, signal.SIGKILL)
    if victim in ("service", "both"):
        os.kill(service, signal.SIGKILL)
    return now


def kills(bench):
    """Each time a request begins, beside a training of many short iterations; one of the two, or both, dies in its middle."""
    victims = [("application", "stopped", "service", "both")[i % 4] for i in range(8 if bench.tiny else TIMES)]
    tiny = ("--tiny",) if bench.tiny else ()
    took, not_closed = {}, 0
    with bench.service(lanes=None) as salus:
        training = OnDemand(salus, bench.place, "kills-training", bench.train("mlp", "--warmup", 30))
        applications = [OnDemand(salus, bench.place, "kills-%d-%s" % (number, victim), bench.script(
            "answers.py", "mlp", "--device", bench.device, *tiny)) for number, victim in enumerate(victims)]
        if not all(job.answer(300) for job in (training, *applications)):
            say("kills: a job did not start")
            return 1
        for victim, application in zip(victims, applications):
            service = eventually(lambda: salus.rows() and salus.pid(), 20)
            program = _descendants(application.job.pid)
            if not service or not program:
                say("kills: no service" if not service else "kills: %s is gone" % application.job.name)
                return 1
            time.sleep(1)  # everybody is attached again
            if application.ask("answer", time.monotonic(), 1, 20, 1) is None:
                bench.failed("kills", victim, application.job)
                continue
            classes = {row["name"]: row["class"] for row in salus.rows()}
            if classes.get(application.job.name) != "interactive":
                say("kills: %s is %s" % (application.job.name, classes.get(application.job.name)))
            training.tell("train", time.monotonic() + 2)
            time.sleep(0.5)
            begin = time.monotonic()
            application.tell("hold", REQUEST_S)
            time.sleep(KILL_AFTER_S)
            killed = _kill(victim, program, service)
            ends = training.answer(30)
            if ends is None:
                bench.failed("kills", victim, training.job)
                return 1
            if victim == "stopped":
                for pid in program:
                    os.kill(pid, signal.SIGCONT)
            before = max((at for at in ends if at < killed), default=begin)
            after = min((at for at in ends if at >= killed), default=float("inf"))
            not_closed += (killed - before) * 1000 < STANDS_STILL_MS
            took.setdefault(victim, []).append((after - killed) * 1000)
            bench.results.add("kills", victim=victim, stood_still_ms=(killed - before) * 1000, goes_on_after_ms=took[victim][-1])
        training.end()
        for application in applications:
            application.end()
            application.job.kill()
        training.job.wait(20)
    rows = [["killed or stopped", "times", "training goes on after, ms: median", "longest", "target"]]
    for victim, times in took.items():
        rows.append([victim, len(times), "%.0f" % sorted(times)[len(times) // 2], "%.0f" % max(times), "<= %d" % TARGET_MS])
    bench.results.show("with gates closed; %d times the training did not stand still before" % not_closed, rows)
    return sum(time > TARGET_MS for times in took.values() for time in times)

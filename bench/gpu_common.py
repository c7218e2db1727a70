"""What bench/gpu and scripts/test-gpu share: a service of their own, an MPS daemon of their own, jobs with time limits."""

import atexit
import bisect
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SALUS = os.path.join(ROOT, "build", "bin", "salus")
ADAPTOR = os.path.join(ROOT, "build", "lib", "salus", "python", "inject")
JOBS = os.path.join(ROOT, "bench", "gpu_jobs")
MIB = 1 << 20


def plain_environment(**more):
    """One thread a job, and nothing of a service or a daemon that the caller may have."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SALUS_", "CUDA_MPS_"))}
    return {**inherited, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **more}


def text_of(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def eventually(condition, seconds, every=0.1):
    """What the condition is when it is true at last, or at the end."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(every)


class Job:
    """A process with its output in files, in a group of its own, so that all of it can be ended; at our end it is."""

    _all = []

    def __init__(self, command, environment, place, name):
        self.name = name
        self.path = os.path.join(place, name)
        self.started = time.monotonic()
        self.ended = None
        self.timed_out = False
        with open(self.path + ".out", "w") as out, open(self.path + ".err", "w") as err:
            self._process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                             stderr=err, process_group=0)
        Job._all.append(self)

    out = property(lambda self: text_of(self.path + ".out"))
    err = property(lambda self: text_of(self.path + ".err"))
    pid = property(lambda self: self._process.pid)

    def status(self):
        """As a shell would tell; nothing while it runs."""
        status = self._process.poll()
        if status is not None and self.ended is None:
            self.ended = time.monotonic()
        return status if status is None or status >= 0 else 128 - status

    def wait(self, seconds):
        eventually(lambda: self.status() is not None, seconds, 0.02)
        if self.status() is None:
            self.timed_out = True
            self.kill()
        return self.status()

    def kill(self):
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        self.status()

    def last_line(self):
        lines = self.out.strip().splitlines()
        return lines[-1] if lines else ""

    def result(self):
        """What our own jobs print last: an object. Empty if they did not come so far."""
        try:
            return json.loads(self.last_line())
        except ValueError:
            return {}

    def complaint(self):
        """What it died of, in a line."""
        if self.timed_out:
            return "timed out"
        lines = [line for line in self.err.strip().splitlines() if line.strip() and not line.startswith("salus: ")]
        errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", line) or "CUDA error" in line]
        return ((errors or lines)[-1] if lines else "no word of it")[:160]


    @classmethod
    def end_all(cls):
        for job in cls._all:
            if job.status() is None:
                job.kill()


atexit.register(Job.end_all)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has it ignored, and jobs would inherit that


def start_together(jobs, go, seconds):
    """Lets them go when all are ready, or one never will be. Each was given --ready, its path with .ready, and --go."""
    eventually(lambda: all(os.path.exists(job.path + ".ready") for job in jobs)
               or any(job.status() is not None for job in jobs), seconds)
    open(go, "w").close()


class OnDemand:
    """A job that does what it is told, and sleeps in between: nobody polls. Its side: gpu_jobs/on_demand.py."""

    def __init__(self, way, place, name, command, **options):
        self._pipes = os.path.join(place, name)
        for end in (".go", ".done"):
            os.mkfifo(self._pipes + end)
        self._go, self._done = (os.open(self._pipes + end, os.O_RDWR) for end in (".go", ".done"))  # does not wait for it
        self._heard = b""
        self.job = way.start(name, [*command, "--pipes", self._pipes], **options)

    def tell(self, *words):
        os.write(self._go, (" ".join(map(str, words)) + "\n").encode())

    def answer(self, seconds):
        """Its next answer, or nothing if it has died or takes too long."""
        end = time.monotonic() + seconds
        while b"\n" not in self._heard:
            if select.select([self._done], [], [], 0.2)[0]:
                self._heard += os.read(self._done, 1 << 16)
            elif self.job.status() is not None or time.monotonic() > end:
                return None
        line, self._heard = self._heard.split(b"\n", 1)
        return json.loads(line)

    def ask(self, *words, seconds=60):
        self.tell(*words)
        return self.answer(seconds)

    def end(self):
        """It reads the end of the pipe, and leaves."""
        for end in (self._go, self._done):
            os.close(end)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        self.job.wait(20)


def iterations_between(ends, begin, end):
    """How many ended in that time, with the parts of those at its edges."""

    def position(when):
        after = min(max(bisect.bisect_left(ends, when), 1), len(ends) - 1)
        return after - 1 + (when - ends[after - 1]) / (ends[after] - ends[after - 1])

    return position(end) - position(begin)


def wait_for_all(jobs, seconds):
    end = time.monotonic() + seconds
    while any(job.status() is None for job in jobs) and time.monotonic() < end:
        time.sleep(0.05)
    for job in jobs:
        job.wait(0)


def in_parallel(tasks, most):
    """Calls all of them, so many at a time; results in their order."""
    results = [None] * len(tasks)
    queue = iter(enumerate(tasks))
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                index, task = next(queue, (None, None))
            if task is None:
                return
            results[index] = task()

    threads = [threading.Thread(target=work) for _ in range(min(most, len(tasks)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class Plain:
    """Jobs as they would run without us: the driver slices time."""

    def __init__(self, place):
        self.place = place

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def environment(self, **more):
        return plain_environment(**more)

    def start(self, name, command, **more):
        return Job(command, self.environment(**more), self.place, name)


class PlainMps(Plain):
    """The same under an MPS daemon in a directory of its own. Without MPS (device cpu) it is as Plain."""

    def __init__(self, place, device):
        super().__init__(place)
        self._here = device == "cuda"

    def environment(self, **more):
        pipe = {"CUDA_MPS_PIPE_DIRECTORY": self._pipe, "CUDA_MPS_LOG_DIRECTORY": self._pipe} if self._here else {}
        return plain_environment(**pipe, **more)

    def __enter__(self):
        self._pipe = tempfile.mkdtemp(prefix="mps-")  # a socket's name must be short
        if self._here:
            subprocess.run(["nvidia-cuda-mps-control", "-d"], env=self.environment(), check=True, timeout=30,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        if self._here:
            try:
                subprocess.run(["nvidia-cuda-mps-control"], input="quit -t 5\n", text=True, env=self.environment(),
                               capture_output=True, timeout=30)
            except subprocess.TimeoutExpired:
                print("  the MPS daemon does not end", flush=True)
            time.sleep(1)
        shutil.rmtree(self._pipe, ignore_errors=True)


class Service(Plain):
    """A salusd with a socket and a state directory of its own; jobs start through `salus run`."""

    kept_log = None  # a file to which the logs of all of them go

    def __init__(self, place, device, lanes=1, mps="off", policy="fair", options=()):
        super().__init__(place)
        self._run = tempfile.mkdtemp(prefix="salus-")
        self.state = os.path.join(self._run, "state")
        self._command = [SALUS + "d", "--config", "/dev/null", "--socket", os.path.join(self._run, "socket"),
                         "--state", self.state, "--policy", policy]
        self._command += ["--lanes", str(lanes)] if lanes else []  # else as it comes
        self._command += ["--device", "cuda", "--mps", mps] if device == "cuda" else ["--device", "host"]
        self._command += options

    def environment(self, **more):
        return plain_environment(SALUS_SOCKET=os.path.join(self._run, "socket"), SALUS_STATE=self.state, **more)

    def __enter__(self):
        if not os.path.isdir(ADAPTOR):  # jobs would run all the same, without lanes
            raise RuntimeError(ADAPTOR + " is missing: build Salus first")
        self._daemon = Job(self._command, self.environment(), self._run, "salusd")
        if not eventually(lambda: self._daemon.status() is not None or self._ask("ps").returncode == 0, 30) \
                or self._daemon.status() is not None:
            self._daemon.kill()
            self._keep_log()
            raise RuntimeError("the service did not start: " + (self.log().strip() or "no word of it"))
        return self

    def __exit__(self, *_):
        self._ask("stop", "--force")
        self._daemon.wait(15)
        self._keep_log()
        shutil.rmtree(self._run, ignore_errors=True)

    def _keep_log(self):
        if self.kept_log:
            with open(self.kept_log, "a") as file:
                file.write("== %s\n%s" % (" ".join(self._command), self.log()))

    def _ask(self, *words):
        try:
            return subprocess.run([SALUS, *words], env=self.environment(), capture_output=True, text=True, timeout=10)
        except subprocess.TimeoutExpired as late:
            return subprocess.CompletedProcess(late.cmd, 124, "", "")

    def start(self, name, command, options=(), **more):
        return Job([SALUS, "run", "--name", name, *options, "--", *command], self.environment(**more), self.place, name)

    def pid(self):
        """Of the service that there is now; 0 if there is none."""
        answer = self._ask("status", "--json")
        return json.loads(answer.stdout)["service"]["pid"] if answer.returncode == 0 else 0

    def rows(self):
        answer = self._ask("ps", "--json")
        return json.loads(answer.stdout)["jobs"] if answer.returncode == 0 else []

    def log(self):
        """Also of services that `salus run` has started in its stead."""
        return self._daemon.out + self._daemon.err + text_of(os.path.join(self.state, "salusd.log"))

    def hand_overs(self):
        """How often the device changed hands, so far."""
        pieces = [name for name in os.listdir(self.state) if re.fullmatch(r"trace(\.\d+)?", name)]
        return sum(text_of(os.path.join(self.state, piece)).count(" handover=1\n") for piece in pieces)

    def accounts(self, seconds=5, wanted=0):
        """What the log says of clients that are gone: {name: [account, ...]}. Waits for so many of them."""
        eventually(lambda: len(ACCOUNT.findall(self.log())) >= wanted, seconds)
        found = {}
        for name, iterations, in_lane, evacuations, page_outs in ACCOUNT.findall(self.log()):
            found.setdefault(name, []).append({"iterations": int(iterations), "in_lane_percent": int(in_lane or 0),
                                               "evacuations": int(evacuations), "page_outs": int(page_outs)})
        return found


ACCOUNT = re.compile(r"client \d+ \((.+), pid \d+\) (?:is gone|left) after (\d+) iterations"
                     r"(?:, (\d+) % of its ephemeral bytes in the lane)?, (\d+) evacuations, (\d+) page-outs")


def device_memory_mib(device):
    """What is in use on it, by whomever."""
    if device != "cuda":
        return 0
    try:
        answer = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"],
                                capture_output=True, text=True, timeout=10)
        return int(answer.stdout.split()[0])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return 0


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def table(rows):
    """The first row is the heading."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


class Results:
    """Raw figures go to DIRECTORY/NAME.jsonl, tables to NAME.txt and to standard output."""

    def __init__(self, directory, name):
        os.makedirs(directory, exist_ok=True)
        self.directory = directory
        self._path = os.path.join(directory, name)

    def add(self, section, **figures):
        with open(self._path + ".jsonl", "a") as file:
            file.write(json.dumps({"section": section, **figures}) + "\n")

    def show(self, title, rows, note=""):
        text = "\n== %s\n%s\n%s" % (title, table(rows), note + "\n" if note else "")
        print(text, flush=True)
        with open(self._path + ".txt", "a") as file:
            file.write(text)


def say(line):
    print("  " + line, file=sys.stderr, flush=True)

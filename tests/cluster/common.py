"""What the tests of engines share: waiting, services of nodes, and who is left over."""

import glob
import json
import os
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77
PATIENCE_S = 180  # nothing takes that long; it ends what hangs


def eventually(what, holds, patience_s=PATIENCE_S):
    until = time.monotonic() + patience_s
    while True:
        result = holds()
        if result:
            return result
        if time.monotonic() > until:
            raise AssertionError("not within %d s: %s" % (patience_s, what))
        time.sleep(0.1)


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def without_salus(environment):
    return {name: value for name, value in environment.items() if not name.startswith("SALUS_")}


class Service:
    """That of one node: two devices of the host, which stand for GPUs."""

    def __init__(self, build, directory, *options):
        self.bin, self.directory = os.path.join(build, "bin"), directory
        self.socket, self.options, self.process = directory + "/socket", options, None
        self.environment = dict(without_salus(os.environ), SALUS_SOCKET=self.socket, SALUS_STATE=directory + "/state")
        self.start()

    def start(self):
        with open(self.directory + "/log", "a") as log:
            self.process = subprocess.Popen(
                [self.bin + "/salusd", "--config", "/dev/null", "--socket", self.socket, "--state", self.directory + "/state",
                 "--device", "host:2", "--capacity", "1GiB", *self.options], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=without_salus(os.environ))
        eventually("the service at %s listens" % self.socket, lambda: self.salus("status").returncode == 0)

    def stop(self):
        self.process.kill()
        self.process.wait()

    def salus(self, *arguments):
        return subprocess.run([self.bin + "/salus", *arguments], capture_output=True, text=True, env=self.environment)

    def status(self):
        """Nothing while the service is being restarted."""
        return json.loads(self.salus("ps", "-a", "--json").stdout or "{}")

    def rows(self):
        return self.status().get("jobs", [])

    def ended(self):
        return self.status().get("ended", [])

    def row(self, name):
        return next((row for row in self.rows() if row["name"] == name), {})

    def history(self):
        return {row["command"]: row for row in json.loads(self.salus("history", "--json").stdout or "[]")}


def strays(directory):
    """Processes whose command or environment names this directory."""
    found = []
    for process in glob.glob("/proc/[0-9]*"):
        if int(os.path.basename(process)) == os.getpid():
            continue
        try:
            with open(process + "/cmdline", "rb") as command, open(process + "/environ", "rb") as environment:
                text = command.read()
                if directory.encode() in text + environment.read():
                    found.append("%s %s" % (os.path.basename(process), text.replace(b"\0", b" ").decode(errors="replace")))
        except OSError:
            pass  # it has just ended
    return found

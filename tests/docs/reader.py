"""Somebody who types what documents say, on a machine of their own: a home, programs, jobs, and a service on the host device."""

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

from own_machine import eventually, processes, text_of

PATIENCE_S = 60
ADA = 54321  # another user
PLACE = "/run/walk"
SERVICE = 'device = "host"\ncapacity = "4GiB"\n'
FOREVER = {"ITERATIONS": "100000000"}

# What the documents' examples run. Small: a job that waits uses no processor.
SCRIPTS = {
    "train": """#!/bin/sh
salus-job --quiet --persistent 1MiB --ephemeral 2MiB --block 1MiB --touch pages --work 100 --think-ms 5 \\
    --iterations "${ITERATIONS:-40}" --iterations-known && echo trained && exit "${STATUS:-0}"
""",
    "serve": """#!/bin/sh
exec salus-job --quiet --persistent 1MiB --ephemeral 1MiB --block 1MiB --touch pages --work 100 --think-ms 20 \\
    --iterations 100000000
""",
    "data.txt": "neither a program nor executable\n",
}


class Complaint(Exception):
    """A document is wrong, or the program."""


class Skipped(Exception):
    """It cannot be tried on this machine; the text says why."""


@dataclass
class Said:
    status: int
    text: str

    def json(self):
        try:
            return json.loads(self.text)
        except ValueError:
            raise Complaint("this is not JSON: " + self.text[:200]) from None


def can_be_others():
    """Not where root of a user namespace is the only user."""
    return text_of("/proc/self/uid_map").split()[2] != "1"


def as_ada():
    """How another user types."""
    if not can_be_others():
        raise Skipped("needs root, for another user")
    return {"uid": ADA}


def expect(holds, complaint):
    if not holds:
        raise Complaint(complaint)


class Reader:
    def __init__(self, root, build):
        self.root = root
        self.bin = PLACE + "/bin"
        self.lib = PLACE + "/lib"
        self.standin = PLACE + "/standin"
        for folder in (self.bin, self.lib + "/salus", PLACE + "/python"):
            os.makedirs(folder)
        for name in ("bin/salus", "bin/salusd", "bin/salus-job", "bin/salus-shim-program", "lib/libsalus.so.1",
                     "lib/libsalus-cuda.so"):
            shutil.copy(os.path.join(build, name), os.path.join(PLACE, name))  # where other users can read them
        shutil.copytree(os.path.join(root, "python/salus"), self.lib + "/salus/python",
                        ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(os.path.join(build, "standin"), self.standin)
        self.python, self.has_torch = sys.executable, False
        for entry in text_of(os.path.join(build, "pythons")).split("\n"):
            path = entry.partition(" ")[2]
            if not self.has_torch and os.access(path, os.X_OK):
                self.python, self.has_torch = path, True
        for name in ("python", "python3"):  # not links: those would hide a virtual environment's packages
            self.write("%s/python/%s" % (PLACE, name), '#!/bin/sh\nexec "%s" "$@"\n' % self.python, 0o755)
        self._know_ada()
        self.pids = {}
        self.renew()

    def _know_ada(self):
        users = PLACE + "/passwd"
        # First: the machine may have a user of this name.
        self.write(users, "ada:x:%d:%d::%s/ada:/bin/sh\n%s" % (ADA, ADA, PLACE, text_of("/etc/passwd")))
        subprocess.run(["mount", "--bind", users, "/etc/passwd"], check=True)

    @staticmethod
    def write(path, text, mode=0o644):
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)

    # ------------------------------------------------------------------------------------------------------ the machine

    def renew(self, service=SERVICE, variables=None):
        """As on the first day: no process, no file. `service`: its configuration; `variables`: more of the environment."""
        self.end_all()
        self.home, self.runtime = PLACE + "/home", "/run/user/%d" % os.getuid()
        self.state = self.home + "/.local/state/salus"
        self.work = self.home + "/work"
        for folder in (self.home, PLACE + "/ada", "/run/user", "/run/salus"):
            shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(self.runtime, 0o700)
        os.makedirs(self.work)
        for folder in (".config/salus", ".cache"):
            os.makedirs(os.path.join(self.home, folder))
        self.write(self.home + "/.config/salus/salusd.toml", service)
        for name, text in SCRIPTS.items():
            self.write(os.path.join(self.work, name), text, 0o755 if text.startswith("#!") else 0o644)
        for name in ("train.py", "examples", "bench"):
            source = os.path.join(self.root, "tests/docs/train.py" if name == "train.py" else name)
            os.symlink(source, os.path.join(self.work, name))
        os.makedirs(PLACE + "/ada/.config/salus")
        self.write(PLACE + "/ada/.config/salus/salusd.toml", SERVICE)
        if can_be_others():
            subprocess.run(["chown", "-R", str(ADA), PLACE + "/ada"], check=True)
        self.variables = {"PATH": "%s:%s/python:%s" % (self.bin, PLACE, os.environ["PATH"]), "HOME": self.home, "XDG_RUNTIME_DIR": self.runtime,
                          "TERM": "xterm", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", **(variables or {})}

    def end_all(self):
        def all_gone():
            for pid in processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            return not processes()

        expect(eventually(all_gone, PATIENCE_S), "processes do not end")

    def has_gpu(self):
        """A machine with the stand-in for a GPU."""
        self.renew('device = "cuda"\ncapacity = "3GiB"\n', {
            "LD_LIBRARY_PATH": self.standin, "SALUS_STANDIN_STATE": PLACE + "/gpu", "SALUS_STANDIN_MEMORY": str(4 << 30)})

    def without_python(self):
        """Variables with which a line does not find it: importing torch takes seconds."""
        return {"PATH": self.bin}

    # -------------------------------------------------------------------------------------------------------- typing

    def start(self, line, variables=None, uid=None, directory=None, terminal=None):
        """Without waiting for its end. `terminal`: the descriptor of one."""
        output = open("%s/output-%d" % (PLACE, len(self.pids)), "w+b") if terminal is None else None
        words, environment = ["/bin/bash", "-c", line], {**self.variables, **(variables or {})}
        if uid is not None:
            words = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", *words]
            environment["HOME"] = PLACE + "/ada"
            environment.pop("XDG_RUNTIME_DIR", None)
        process = subprocess.Popen(words, env=environment, cwd=directory or (self.work if uid is None else PLACE + "/ada"),
                                   stdin=subprocess.DEVNULL if terminal is None else terminal,
                                   stdout=output if terminal is None else terminal, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        process.said = lambda: "" if output is None else text_of(output.name)
        self.pids[process.pid] = line
        return process

    def types(self, line, status=0, **how):
        """And waits for the end. `status` None: whatever it is."""
        process = self.start(line, **how)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Complaint("'%s' does not end: %s" % (line, process.said())) from None
        said = Said(process.returncode, process.said())
        expect(status is None or said.status == status,
               "'%s' ends with status %d, not %s: %s" % (line, said.status, status, said.text.strip()[-400:]))
        return said

    def types_at_terminal(self, line, keys, until):
        """`keys` are pressed when `until` has been printed."""
        ours, theirs = pty.openpty()
        process = self.start(line, terminal=theirs)
        os.close(theirs)
        text, end = "", time.monotonic() + PATIENCE_S
        while process.poll() is None and time.monotonic() < end:
            if select.select([ours], [], [], 0.05)[0]:
                try:
                    text += os.read(ours, 65536).decode(errors="replace")
                except OSError:
                    break
            if until in text and keys:
                os.write(ours, keys.encode())
                keys = ""
        os.close(ours)
        expect(not keys, "'%s' does not print '%s' but: %s" % (line, until, text[-400:]))
        return Said(process.wait(PATIENCE_S), text)

    def eventually(self, holds, complaint):
        if not eventually(holds, PATIENCE_S):
            raise Complaint("%s:\n%s" % (complaint, self.types("salus ps -a", None).text))

    # ------------------------------------------------------------------------------------------------- what there is

    def status(self):
        """As `salus status --json` prints it; empty without a service."""
        asked = self.types("salus status --json", None)
        return asked.json() if asked.status == 0 else {"jobs": [], "service": {}}

    def jobs(self):
        return self.status()["jobs"]

    def job(self, which):
        """Its row, by number or name; empty if there is none."""
        return next((row for row in self.jobs() if which in (row["job"], row["name"])), {})

    def works(self, *names):
        """Whether these jobs have had iterations."""
        rows = {row["name"]: row for row in self.jobs()}
        return all(rows.get(name, {}).get("iterations", 0) > 0 for name in names)

    def is_at_work(self):
        """With the jobs of the documents: night, and job 3, which is named serve. Both run until they are ended."""
        rows = {row["job"]: row["name"] for row in self.jobs() if row["state"] != "ended"}
        if rows.get(3) != "serve" or "night" not in rows.values():
            self.has_no_service()
            self.types("salus start")
            self.types("salus run -d --name first -- ./train", variables=FOREVER)
            self.types("salus run -d --name night -- ./train", variables=FOREVER)
            self.types("salus run -d --class interactive -- ./serve")
        self.eventually(lambda: self.works("night", "serve"), "night and serve do not run")

    def has_run(self):
        """One job, night, has ended under this service."""
        ended = [row["name"] for row in self.status().get("ended", [])]
        if "night" not in ended or "./train" not in self.types("salus history").text:
            self.is_idle()
            self.types("salus run -d --name night -- ./train")
            self.types("salus wait night")

    def is_idle(self):
        """A service runs, without jobs."""
        self.types("salus start", None)

        def all_ended():
            left = self.jobs()
            if left:  # a process that had not attached outlives its script, and comes later
                self.types("salus kill --all --now", None)
            return not left

        self.eventually(all_ended, "jobs do not end")

    def has_no_service(self):
        if self.status()["service"]:
            self.is_idle()
            self.types("salus stop")

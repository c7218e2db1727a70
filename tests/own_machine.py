"""A machine of a test's own: namespaces with an empty /run, in which no process but the test's is seen. For scripts in tests/."""

import os
import shutil
import subprocess
import sys
import time

SKIPPED = 77  # ctest knows it
PATIENCE_S = 240  # nothing takes that long; it ends what hangs
_INSIDE = "SALUS_TEST_INSIDE"


def enter_namespaces():
    """Starts this program again, as the first process of a PID namespace: whatever it does not reap at its end is a stray.
    Returns in that process alone. Where namespaces cannot be had, that is said, and the status is SKIPPED."""
    if os.environ.pop(_INSIDE, ""):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", "/run"], check=True)
        return
    unshare = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.getuid() != 0:
        unshare[1:1] = ["--user", "--map-root-user"]
    why_not = "there is no unshare"
    if shutil.which(unshare[0]):
        tries = subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", "/run"], capture_output=True, text=True, check=False)
        why_not = "" if tries.returncode == 0 else tries.stderr.strip()
    if why_not:
        print("SKIPPED: no namespaces here: " + why_not)
        sys.exit(SKIPPED)
    status = subprocess.run([*unshare, sys.executable, *sys.argv], env={**os.environ, _INSIDE: "1"}, check=False).returncode
    sys.exit(status if status >= 0 else 1)


def text_of(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def processes():
    """Their command lines, without this program's; those that have ended have none."""
    others = [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid()]
    return {int(pid): command for pid in others if (command := text_of("/proc/%s/cmdline" % pid).replace("\0", " ").strip())}


def eventually(holds, patience_s=PATIENCE_S):
    until = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True

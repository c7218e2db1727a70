"""Ray's workers share GPUs under Salus:

    import ray, salus_ray
    ray.init(runtime_env=salus_ray.runtime_env())

Each worker that uses torch, or on a GPU any CUDA program, then joins the service of its node by itself. `salus ps` shows the
names of actors, tasks and trials. Actors and trials ask for a part of a GPU as usual (num_gpus=0.25).

Requires Salus at the same place on all nodes, with the machine's service or a service of the same user on each.
"""

import json
import os
import shutil
import subprocess

_HERE = os.path.dirname(os.path.abspath(__file__))


def runtime_env(runtime_env=None, salus=None, **variables):
    """The runtime environment for ray.init, a task or an actor: the given one, extended.

    `salus` is the program, by default that of this installation, else the one in PATH. Further variables state what `salus run`
    has options for, such as SALUS_PRIORITY="5". Raises RuntimeError if no service runs on this node.
    """
    result = dict(runtime_env or {})
    own = dict(result.get("env_vars") or {})
    environment = dict(os.environ, **({"PYTHONPATH": own["PYTHONPATH"]} if "PYTHONPATH" in own else {}))
    done = subprocess.run([salus or _program(), "env", "--json"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode(errors="replace").strip())
    own.update(json.loads(done.stdout.decode()))
    # A worker belongs to no job, even if Ray's processes were started by one.
    own.update({"SALUS_JOB": "", "SALUS_NAME": ""})
    own.update({name: str(value) for name, value in variables.items()})
    result["env_vars"] = own
    return result


def _program():
    for path in (os.path.join(_HERE, "..", "..", "..", "bin", "salus"), os.path.join(_HERE, "..", "..", "build", "bin", "salus")):
        if os.path.exists(path):
            return os.path.normpath(path)
    found = shutil.which("salus")
    if not found:
        raise RuntimeError("salus is neither beside salus_ray.py nor in PATH")
    return found

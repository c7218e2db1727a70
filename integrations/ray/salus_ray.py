"""Ray's workers share GPUs under Salus:

    import ray, salus_ray
    ray.init(runtime_env=salus_ray.runtime_env())

Each worker that uses torch, or on a GPU any CUDA program, then joins the service of its node by itself. `salus ps` shows the
names of actors, tasks and trials. Actors and trials ask for a part of a GPU as usual (num_gpus=0.25), or for what earlier runs
have needed: ray.remote(**salus_ray.resources(Trainer))(Trainer).

Requires Salus at the same place on all nodes, with the machine's service or a service of the same user on each.
"""

import json
import math
import os
import shutil
import subprocess

_HERE = os.path.dirname(os.path.abspath(__file__))
_FINEST = 10000  # Ray counts GPUs in parts of this size


def runtime_env(runtime_env=None, salus=None, **variables):
    """The runtime environment for ray.init, a task or an actor: the given one, extended.

    `salus` is the program, by default that of this installation, else the one in PATH. Further variables state what `salus run`
    has options for, such as SALUS_PRIORITY="5". Ray replaces ${NAME} in them by what NAME is on the worker's node. Raises
    RuntimeError if no service runs on this node.
    """
    result = dict(runtime_env or {})
    own = dict(result.get("env_vars") or {})
    environment = dict(os.environ, **{name: str(value) for name, value in own.items()})  # what the user set is kept
    own.update(json.loads(_output_of([salus or _program(), "env", "--json"], environment)))
    # A worker belongs to no job, even if Ray's processes were started by one.
    own.update({"SALUS_JOB": "", "SALUS_NAME": ""})
    own.update({name: str(value) for name, value in variables.items()})
    result["env_vars"] = own
    return result


def resources(what, otherwise=0.25, profiles=None, salus=None):
    """{"num_gpus": ...} for what earlier runs of an actor's class, a task's function or a trainable have needed.

    The part of a GPU is that of their persistent memory in what is beside the lane; a whole GPU, if their iteration does not
    fit into the lane. `otherwise` is for what has not run yet. `what` is the class or function before ray.remote, or its
    name. `profiles` is a file that `salus profiles` has written; by default, the history of this node is asked.
    """
    name = what if isinstance(what, str) else getattr(what, "__name__", None)
    if name is None:
        raise TypeError("resources: give the class or function before ray.remote, or its name")
    if profiles:
        with open(profiles) as file:
            text = file.read()
    else:
        text = _output_of([salus or _program(), "profiles", "export"], os.environ)
    lines = [json.loads(line) for line in text.splitlines() if line.strip()]
    shares = [line for line in lines if "salus_profiles" in line]
    known = [line for line in lines if line.get("command") in ("ray " + name, "ray tune " + name)]
    if not known or not shares:
        return {"num_gpus": otherwise}
    capacity, lane = (min(line[key] for line in shares) for key in ("capacity", "lane"))
    persistent, ephemeral = (max(line[key] for line in known) for key in ("persistent", "ephemeral"))
    if ephemeral > lane or persistent > capacity - lane:
        return {"num_gpus": 1}
    return {"num_gpus": math.ceil(_FINEST * persistent / (capacity - lane)) / _FINEST}


def _output_of(command, environment):
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode(errors="replace").strip())
    return done.stdout.decode()


def _program():
    for path in (os.path.join(_HERE, "..", "..", "..", "bin", "salus"), os.path.join(_HERE, "..", "..", "build", "bin", "salus")):
        if os.path.exists(path):
            return os.path.normpath(path)
    found = shutil.which("salus")
    if not found:
        raise RuntimeError("salus is neither beside salus_ray.py nor in PATH")
    return found

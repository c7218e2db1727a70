"""What a process is called that an engine has started, such as Ray: the engine knows, its command line does not."""

import sys


def name_and_key():
    """The name of the job, and the key of its history; nothing: by its command line."""
    ray = sys.modules.get("ray")
    try:
        if ray is not None and ray.is_initialized() and _is_worker(ray):
            return _of_ray(ray)
    except Exception:
        pass  # a name is not worth an error
    return None, None


def _is_worker(ray):
    context = ray.get_runtime_context()
    return context.get_actor_id() is not None or context.get_task_id() is not None


def _of_ray(ray):
    context = ray.get_runtime_context()
    trial = _trial()
    if trial is not None:
        return trial
    # "module.function" or "module.Class.method", in which a function may be another's.
    words = (_first(context, "get_task_function_name") or _first(context, "get_task_name") or "ray").split(".")
    is_actor = context.get_actor_id() is not None
    what = words[-2] if is_actor and len(words) > 1 else words[-1]
    return _first(context, "get_actor_name") or what, "ray " + what


def _first(context, method):
    """What the context answers, if this version of Ray has the method."""
    answer = getattr(context, method, None)
    return answer() if answer is not None else None


def _trial():
    """Of Ray Tune. The history knows the trainable, whatever it is tried with."""
    if "ray.tune" not in sys.modules:
        return None
    context = sys.modules["ray.tune"].get_context()
    trial = context.get_trial_name()
    return (trial, "ray tune " + trial.rpartition("_")[0].rpartition("_")[0]) if trial else None

"""Tells when the script's own threads may use tensors, which then must not be moved.

The client itself notices a thread that calls a model. Other threads are noticed when they start: every start of a Python thread
passes through here from the interpreter's start on, and `tell(True)` returns before the thread runs. Library threads that touch no
tensor of the script's do not count. When all other threads have ended, `tell(False)` is called at the start of the next iteration.
"""

import _thread
import contextlib
import functools
import os
import sys
import threading

# Library threads that touch no tensors, by the module of their class or of their target. Pool threads are not among them: they
# run whatever they are given.
_HARMLESS_MODULES = (
    "tqdm.", "ipykernel.", "IPython.core.", "zmq.", "debugpy.", "pydevd", "tensorboard.", "tensorboardX.",
    "torch.utils.tensorboard.", "wandb.", "mlflow.", "comet_ml.", "neptune.", "sentry_sdk.",
    "torch.utils.data._utils.pin_memory", "torch._inductor.", "torch.distributed.elastic.", "huggingface_hub.", "ray._private.")
# Ray Tune and Train run a script's function in a thread of theirs. Meanwhile the main thread and their others wait for it, and
# pass on what it reports.
_RUNNERS = ("ray.air._internal.", "ray.tune.", "ray.train.")
# Recognised by the code that starts them: the compiler's own pool, and what a DataLoader sends its workers, which is indices. What
# a script puts into a queue itself is pickled by the script's own methods, in the queue's thread.
_LIBRARIES = ("torch._inductor.", "torch.utils.data.", "torchdata.")
_STARTERS = ("threading", "concurrent.futures", "contextlib", "functools", "multiprocessing.queues", __name__)
_THREAD_START = threading.Thread.start.__code__

_watcher = None  # who is told of starts
_start_was_hidden = False  # a thread was started that threading does not know, and that cannot be looked for


def watch_starts():
    """Once, at the interpreter's start: a script may keep the functions that it finds."""
    start = threading.Thread.start

    @functools.wraps(start)
    def start_thread(self, *args, **kwargs):
        if _is_started_by_library():
            self._salus_is_harmless = True
        with _watcher._about_to_start(self) if _watcher else contextlib.nullcontext():
            return start(self, *args, **kwargs)

    threading.Thread.start = start_thread
    for module in (_thread, threading):
        for name in ("start_new_thread", "start_new", "start_joinable_thread", "_start_new_thread", "_start_joinable_thread"):
            if hasattr(module, name):
                setattr(module, name, _watched(getattr(module, name)))


def _watched(start):
    @functools.wraps(start)
    def start_hidden(*args, **kwargs):
        global _start_was_hidden
        if sys._getframe(1).f_code is _THREAD_START:
            return start(*args, **kwargs)
        _start_was_hidden = True
        with _watcher._about_to_start(None) if _watcher else contextlib.nullcontext():
            return start(*args, **kwargs)

    return start_hidden


class Threads:
    """The threads of this process."""

    def __init__(self, tell):
        self._tell = tell
        self._lock = threading.RLock()  # a signal handler may start a thread while we look
        self._starting = 0  # between tell(True) and the start
        self._seen = None  # the threads seen by the last look_again()
        self.others = False  # what was told last

    def watch(self):
        """Starts watching; threads that already run count, too."""
        global _watcher
        _watcher = self
        os.register_at_fork(after_in_child=self._forked)
        if _others():
            self._set(True)

    def look_again(self):
        """Whether there still are other threads. Tells when there are none any more."""
        threads = tuple(threading._active)
        if threads != self._seen and not _start_was_hidden:
            self._seen = threads
            with self._lock:
                if self._starting == 0 and not _others():
                    self._set(False)
        return self.others

    def _forked(self):
        self._lock = threading.RLock()

    def _about_to_start(self, thread):
        harmless = thread is not None and _is_harmless(thread)
        return contextlib.nullcontext() if harmless else _Starting(self)

    def _set(self, others):
        if others == self.others:
            return
        if others:
            self._tell(True)
            self.others = True
            return
        self.others = False
        self._tell(False)
        if self.others:  # a signal handler has started a thread meanwhile
            self._tell(True)


class _Starting:
    def __init__(self, threads):
        self._threads = threads

    def __enter__(self):
        with self._threads._lock:
            self._threads._starting += 1
            self._threads._set(True)

    def __exit__(self, *_):
        with self._threads._lock:
            self._threads._starting -= 1
            self._threads._seen = None


def _others():
    current = threading.current_thread()
    return _start_was_hidden or any(thread is not current and not _is_harmless(thread) and not _waits_for(current, thread)
                                    for thread in threading.enumerate())


def _is_started_by_library():
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_STARTERS):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").startswith(_LIBRARIES)


def _is_harmless(thread):
    if getattr(thread, "_salus_is_harmless", False):
        return True
    if not getattr(thread, "_initialized", True):  # threading will say so
        return True
    return _is_of(thread, _HARMLESS_MODULES) or isinstance(thread, threading._DummyThread) and _is_autograd(thread)


def _is_of(thread, modules):
    target = getattr(thread, "_target", None)
    return type(thread).__module__.startswith(modules) or (getattr(target, "__module__", None) or "").startswith(modules)


def _waits_for(current, thread):
    return _is_of(current, _RUNNERS) and (thread is threading.main_thread() or _is_of(thread, _RUNNERS))


def _is_autograd(thread):
    """autograd's threads are native threads that work for the thread that waits for them."""
    try:
        with open("/proc/self/task/%d/comm" % thread.native_id) as name:
            return name.read().startswith("pt_autograd_")
    except (OSError, TypeError):
        return False

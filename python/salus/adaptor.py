"""Makes this process a client of the service if it uses torch and the service accepts it."""

import atexit
import functools
import os
import sys
import threading

from .imports import when_imported
from .threads import Threads, watch_starts

# Tested versions. With any other version, jobs take turns but do not share memory.
_KNOWN_VERSIONS = [(1, 13)] + [(2, minor) for minor in range(14)]
_DISTRIBUTED = "torch.distributed with several processes is not shared yet"


def _say(line):
    sys.stderr.write("salus: %s\n" % line)
    sys.stderr.flush()


def _unshared(why, say=True):
    """Tells the user, and whoever looks at `salus ps`."""
    if say:
        _say(why + "; the job runs without sharing")
    try:
        from .library import tell_unshared

        tell_unshared(why)
    except Exception:
        pass  # the library itself may be what is missing


def watch():
    """Called at the start of every Python in the job."""
    if os.environ.get("SALUS_DISABLE", "0") not in ("", "0") or not os.environ.get("SALUS_SOCKET"):
        return
    watch_starts()
    when_imported("torch", _torch_is_here)


def _torch_is_here(torch):
    try:
        if _world_size() > 1:
            _unshared(_DISTRIBUTED, say=os.environ.get("RANK", "0") == "0")
            os.environ["SALUS_NO_CREW"] = "1"  # its launches take no turns, either
            return
        # A process that multiprocessing spawned is most often a DataLoader worker. It attaches only when it proves not to be
        # one.
        spawned = "--multiprocessing-fork" in sys.argv or "--multiprocessing-fork" in getattr(sys, "orig_argv", ())
        if _is_on_gpu() or (not spawned and _joins_on_gpu()):
            _AdaptorOnGpu(torch).start()
            return
        _Adaptor(torch, at_once=not spawned).start()
    except Exception as error:
        _unshared("the adaptor cannot start (%s: %s)" % (type(error).__name__, error))


def _is_on_gpu():
    device = os.environ.get("SALUS_DEVICE")
    if device is None:
        from .library import has_shim

        return has_shim()
    return device == "cuda"


def _join():
    """A process that `salus run` has not started becomes a job of its own. Returns why it cannot, or nothing."""
    if os.environ.get("SALUS_JOB"):
        return None
    from . import library
    from .engines import name_and_key

    return library.join(*name_and_key())


def _joins_on_gpu():
    """A process without the shim learns only by joining what the service shares."""
    _join()  # if it cannot, the attachment says why
    return _is_on_gpu()


def _world_size():
    try:
        return int(os.environ.get("WORLD_SIZE", "1"))
    except ValueError:
        return 1


class _Adaptor:
    """The device that Boundaries calls: the client, once there is one."""

    def __init__(self, torch, at_once):
        from .torch_hooks import Hooks

        self._torch = torch
        self._at_once = at_once
        self._client = None
        self._threads = Threads(self._threads_changed)
        self._lock = threading.Lock()
        self.hooks = Hooks(torch, self)

    def start(self):
        if self._at_once and not self._attach():
            return
        self.hooks.install()
        self._watch_for_ends()
        self._watch_for_distributed()

    # ---------------------------------------------------------------------------------------------------- the device

    def begin(self, kind):
        if self._client is None:
            self._attach_late()
        if self._client is not None:
            self._client.begin(kind)

    def end(self):
        if self._client is not None:
            self._client.end()

    def answer(self):
        if self._client is not None:
            self._client.answer()

    def doubt(self):
        if self._client is not None:
            self._client.doubt()

    def leave(self):
        if self._client is not None:
            self._client.leave()

    def fetched(self):
        if self._client is not None:
            self._client.fetched()

    def count(self, iterations):
        if self._client is not None:
            self._client.count(iterations)

    def join(self, kind):
        if self._client is not None:
            self._client.join(kind)

    def _threads_changed(self, others):
        self._client.set_threaded(others)
        self.begin = self._begin_among_others if others else self._client.begin

    def _begin_among_others(self, kind):
        self._threads.look_again()
        self._client.begin(kind)

    # ----------------------------------------------------------------------------------------------------- attaching

    def _attach(self):
        from .library import Attachment

        why_not = _join() or self._why_not_here()
        client = None if why_not else Attachment()
        if why_not or not client.attached:
            _unshared(why_not or client.why_not)
            self.hooks.disable()
            return False
        why_not = self._no_lanes_because(client)
        if why_not:
            _say("%s; the job takes turns, but does not share memory" % why_not)
        self._client = client
        self._threads.watch()
        self._call_directly(client)
        return True

    def _why_not_here(self):
        """Before it attaches: its tensors would come from another device."""
        return "the service shares a GPU, which this process knew too late" if _is_on_gpu() else None

    def _call_directly(self, client):
        """From now on Boundaries calls the client itself, except that begin() looks after other threads while there are any."""
        for name in ("end", "answer", "doubt", "leave", "count", "join", "fetched"):
            setattr(self, name, getattr(client, name))
        self._threads_changed(self._threads.others)

    def _attach_late(self):
        with self._lock:
            if self._client is not None or not self.hooks.enabled:
                return
            if self._torch.utils.data.get_worker_info() is not None:
                self.hooks.disable()
            else:
                try:
                    self._attach()
                except Exception as error:
                    _unshared("the adaptor cannot start (%s)" % error)
                    self.hooks.disable()

    def _no_lanes_because(self, client):
        """Serves tensors from the client's memory. Returns why that is impossible, or nothing."""
        torch = self._torch
        version = torch.__version__
        if _parsed(version) not in _KNOWN_VERSIONS:
            return "torch %s is not known to this version of Salus" % version
        why_not = client.interpose("libc10.so")
        if why_not:
            return "the tensors of this torch cannot be placed (%s)" % why_not
        before = client.counters().private_bytes
        probe = torch.empty(1 << 21, dtype=torch.uint8)
        if client.counters().private_bytes < before + probe.numel():
            return "the tensors of this torch cannot be placed (it has an allocator of its own)"
        return None

    # --------------------------------------------------------------------------------------------------------- ends

    def _watch_for_ends(self):
        """An interrupted iteration must not hold up other jobs."""
        atexit.register(self.hooks.finished)
        excepthook = sys.excepthook

        def after_an_exception(*args):
            self.hooks.broken_off()
            excepthook(*args)

        sys.excepthook = after_an_exception
        when_imported("pdb", self._watch_debugger)
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None else None
        if shell is not None:
            shell.events.register("post_run_cell", lambda *_: self.hooks.broken_off())

    def _watch_debugger(self, pdb):
        prompt = pdb.Pdb.cmdloop

        def cmdloop(debugger, *args, **kwargs):
            self.hooks.broken_off()
            return prompt(debugger, *args, **kwargs)

        pdb.Pdb.cmdloop = cmdloop

    # -------------------------------------------------------------------------------------------------- distributed

    def _watch_for_distributed(self):
        distributed = getattr(self._torch, "distributed", None)
        original = getattr(distributed, "init_process_group", None)
        if original is None:
            return

        def init_process_group(*args, **kwargs):
            result = original(*args, **kwargs)
            if distributed.get_world_size() > 1:
                self.hooks.broken_off()
                self.hooks.disable()
                if self._client is not None:
                    self._client.stop_sharing()
                _unshared(_DISTRIBUTED, say=distributed.get_rank() == 0)
            return result

        distributed.init_process_group = init_process_group


class _AdaptorOnGpu(_Adaptor):
    """For a service that shares a GPU: this process becomes a client when it first uses the GPU."""

    def __init__(self, torch):
        super().__init__(torch, at_once=False)
        self._is_to_join = True

    def start(self):
        if not self._torch.version.cuda:
            _unshared("the service shares a GPU, and this torch was built without CUDA")
            return
        super().start()
        self.hooks.hook_graphs()
        self._join_before_cuda()
        # Not earlier: an initialised driver does not survive the forks of a DataLoader.
        self._torch.cuda._lazy_call(self._gpu_is_here)

    def _join_before_cuda(self):
        """Before the driver is started, which a process does only once there is room for it."""
        if os.environ.get("SALUS_JOB"):
            return
        for module, name in ((self._torch.cuda, "_lazy_init"), (self._torch._C, "_cuda_getDeviceCount")):
            original = getattr(module, name, None)
            if original is not None:
                setattr(module, name, self._after_joining(original))

    def _after_joining(self, original):
        @functools.wraps(original)
        def wrapper(*args, **kwargs):
            if self._is_to_join:
                self._is_to_join = False
                _join()  # if it cannot, the attachment says why
            return original(*args, **kwargs)

        return wrapper

    def _gpu_is_here(self):
        with self._lock:
            if self._client is not None or not self.hooks.enabled:
                return
            try:
                self._attach()
            except Exception as error:
                _unshared("the adaptor cannot start (%s: %s)" % (type(error).__name__, error))
                self.hooks.disable()

    def _attach_late(self):
        pass

    def _why_not_here(self):
        return None

    def _no_lanes_because(self, client):
        from . import cuda

        if client.device != "cuda":
            return "the service does not share a GPU any more"
        return cuda.install(self._torch, client)


def outlook():
    """One line for `salus doctor` where there is no GPU; empty if there is no torch."""
    from importlib import metadata

    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return ""
    if _parsed(version) in _KNOWN_VERSIONS:
        return "torch %s: its tensors will be in lanes" % version
    return "torch %s takes turns, but has no lanes: it is not known to this version of Salus" % version


def _parsed(version):
    parts = version.split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (IndexError, ValueError):
        return None

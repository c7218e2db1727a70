"""Tells Boundaries what torch does: model calls, backward passes, optimizer steps. The thin shell around boundaries.py."""

import functools
import os
import sys
import threading

from .boundaries import Boundaries, Learned, Optimizers


class Hooks:
    """Installed once a process; every thread has boundaries of its own."""

    def __init__(self, torch, device):
        self._torch = torch
        self._device = device
        self._optimizers = Optimizers()
        self._learned = Learned()
        self._threads_seen = 1
        self.enabled = True
        hooks = self

        class OfThread(threading.local):
            def __init__(self):
                self.in_call = False  # inside the outermost call of a model: what it calls is no affair of ours
                self.boundaries = Boundaries(device, hooks._optimizers, hooks._learned)

        self._of_thread = OfThread()

    def install(self):
        self._hook_models()
        self._hook_backward()
        self._hook_optimizers()
        self._hook_scalers()
        os.register_at_fork(after_in_child=self.disable)

    def disable(self):
        """From here on the process runs as if there were no hooks."""
        self.enabled = False

    def broken_off(self):
        """Whatever this thread was doing does not go on now."""
        if self.enabled:
            self._of_thread.boundaries.broken_off()

    def finished(self):
        if self.enabled:
            self._of_thread.boundaries.finished()

    # ------------------------------------------------------------------------------------------------------- models

    def _hook_models(self):
        torch = self._torch
        hooks = self
        of_thread = self._of_thread
        is_grad_enabled = torch.is_grad_enabled
        original = torch.nn.Module.__call__

        @functools.wraps(original)
        def call(self, *args, **kwargs):
            if of_thread.in_call or not hooks.enabled or next(self.parameters(), None) is None:
                return original(self, *args, **kwargs)
            hooks._look_at_threads()
            boundaries = of_thread.boundaries
            owners = hooks._optimizers.owners(self, self.parameters)
            boundaries.call_begins(self, owners, is_grad_enabled(), self.training)
            of_thread.in_call = True
            failed = True
            try:
                result = original(self, *args, **kwargs)
                failed = False
            finally:
                of_thread.in_call = False
                boundaries.call_ends(failed)
            return result

        torch.nn.Module.__call__ = call
        self._hide_from_compiler(call, original)

    def _hide_from_compiler(self, call, original):
        """torch.compile is to see what is inside the call, not the call."""
        try:
            from torch._C._dynamo.eval_frame import skip_code
        except ImportError:  # before torch 2.0
            return
        skip_code(call.__code__)
        # It takes what it finds there for the unpatched call, which it need not look into; but it may have looked before.
        for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
            module = sys.modules.get(name)
            if module is not None and getattr(module, "unpatched_nn_module_call", None) is original:
                module.unpatched_nn_module_call = call

    def _look_at_threads(self):
        """A thread of the script's own may use tensors while this one waits: then they must stay where they are."""
        count = threading.active_count()
        if count == self._threads_seen:
            return
        self._threads_seen = count
        if any(not _is_harmless(thread) for thread in threading.enumerate()):
            self._device.pin()

    # ----------------------------------------------------------------------------------------------------- backward

    def _hook_backward(self):
        torch = self._torch
        hooks = self
        of_thread = self._of_thread
        original = torch.autograd.backward

        @functools.wraps(original)
        def backward(*args, **kwargs):
            # Under a function transform (torch.func) or in a compiled region this is no pass of its own.
            if not hooks.enabled or of_thread.in_call:
                return original(*args, **kwargs)
            boundaries = of_thread.boundaries
            boundaries.backward_begins()
            try:
                return original(*args, **kwargs)
            finally:
                boundaries.backward_ends()

        torch.autograd.backward = backward

    # --------------------------------------------------------------------------------------------------- optimizers

    def _step_begins(self, optimizer, *_):
        if self.enabled:
            self._of_thread.boundaries.step_begins(optimizer)

    def _step_ends(self, optimizer, *_):
        if self.enabled:
            boundaries = self._of_thread.boundaries
            boundaries.steps = getattr(boundaries, "steps", 0) + 1
            boundaries.step_ends(optimizer)

    def _hook_optimizers(self):
        optimizer_module = sys.modules["torch.optim.optimizer"]  # torch.optim hides it
        optimizer_class = self._torch.optim.Optimizer
        hooks = self
        has_global_hooks = hasattr(optimizer_module, "register_optimizer_step_pre_hook")
        if has_global_hooks:
            optimizer_module.register_optimizer_step_pre_hook(_not_compiled(self._step_begins))
            optimizer_module.register_optimizer_step_post_hook(_not_compiled(self._step_ends))

        original_add = optimizer_class.add_param_group

        @functools.wraps(original_add)
        def add_param_group(self, *args, **kwargs):
            result = original_add(self, *args, **kwargs)
            hooks._optimizers.changed(self)
            if not has_global_hooks:
                hooks._wrap_step(type(self))
            return result

        optimizer_class.add_param_group = add_param_group

    def _wrap_step(self, optimizer_class):
        """Before torch 2.0 there are no hooks around steps."""
        original = optimizer_class.step
        if getattr(original, "_salus", False):
            return
        hooks = self

        @functools.wraps(original)
        def step(self, *args, **kwargs):
            hooks._step_begins(self)
            result = original(self, *args, **kwargs)
            hooks._step_ends(self)
            return result

        step._salus = True
        optimizer_class.step = step

    # ------------------------------------------------------------------------------------------------------ scalers

    def _hook_scalers(self):
        """A step that GradScaler leaves out, because of an overflow, ends an iteration all the same."""
        torch = self._torch
        scalers = []
        for path in ("amp.grad_scaler", "cuda.amp.grad_scaler"):
            module = sys.modules.get("torch." + path)
            scaler = getattr(module, "GradScaler", None)
            if scaler is not None and "step" in scaler.__dict__ and scaler not in scalers:
                scalers.append(scaler)
        for scaler in scalers:
            self._hook_scaler(scaler)

    def _hook_scaler(self, scaler):
        hooks = self
        original = scaler.step

        @functools.wraps(original)
        def step(self, optimizer, *args, **kwargs):
            boundaries = hooks._of_thread.boundaries
            before = getattr(boundaries, "steps", 0)
            result = original(self, optimizer, *args, **kwargs)
            if getattr(boundaries, "steps", 0) == before:
                hooks._step_begins(optimizer)
                hooks._step_ends(optimizer)
            return result

        scaler.step = step


def _not_compiled(function):
    """torch.compile leaves it alone."""

    def hook(*args):
        function(*args)

    hook._torchdynamo_disable = True
    return hook


# Threads that libraries start and that touch no tensors.
_HARMLESS_NAMES = ("MainThread", "QueueFeederThread", "IPythonHistorySavingThread", "IOPub", "Control", "Heartbeat")
_HARMLESS_MODULES = ("tqdm.", "ipykernel.", "IPython.", "zmq.", "tornado.", "debugpy.", "pydevd")


def _is_harmless(thread):
    if thread is threading.current_thread() or thread.name.startswith(_HARMLESS_NAMES):
        return True
    return type(thread).__module__.startswith(_HARMLESS_MODULES)

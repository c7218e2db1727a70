"""Tells Boundaries what torch does: model calls, backward passes, optimizer steps. The thin shell around boundaries.py."""

import functools
import os
import sys
import threading

from .boundaries import STEP, Boundaries, Script
from .imports import when_imported


class Hooks:
    """Installed once per process; every thread has boundaries of its own."""

    def __init__(self, torch, device):
        self._torch = torch
        self._device = device
        self._script = Script(lambda model: model.parameters())
        self._calls = {}  # the boundaries of a thread -> the model whose outermost call it is in
        self._contains = {}
        self.enabled = True
        hooks = self

        class OfThread(threading.local):
            def __init__(self):
                # Inside the outermost call of a model, or inside backward: nested calls are ignored. So are calls by
                # autograd's own threads, which work for the thread that waits for them.
                self.inside = isinstance(threading.current_thread(), threading._DummyThread)
                self.boundaries = Boundaries(device, hooks._script)
                self.end = _AtEnd(hooks, self.boundaries)

        self._of_thread = OfThread()
        self._step_begins, self._step_ends = self._make_step_hooks()

    def install(self):
        self._hook_models()
        self._hook_backward()
        self._hook_optimizers()
        self._hook_scalers()
        self._hook_loaders()
        os.register_at_fork(after_in_child=self.disable)

    def disable(self):
        """From here on the process runs as without hooks."""
        self.enabled = False

    def broken_off(self):
        """The current work of this thread was interrupted."""
        self._tell(self._of_thread.boundaries.broken_off)

    def finished(self):
        self._tell(self._of_thread.boundaries.finished)

    def _tell(self, event, *args):
        """Our own errors must not reach the script. MemoryError (the device is too small) and errors of signal handlers must."""
        if not self.enabled:
            self._of_thread.boundaries.let_go()
            return
        try:
            event(*args)
        except Exception as error:
            self._failed(error)

    def _failed(self, error):
        """Handles the current exception for the hooks of every iteration, too, which have no time for _tell."""
        if isinstance(error, MemoryError) or not _is_ours(error):
            raise
        self.disable()
        self._device.leave()
        what = "%s: %s" % (type(error).__name__, error)
        sys.stderr.write("salus: internal error (%s); the job continues without sharing\n" % what)

    # ------------------------------------------------------------------------------------------------------- models

    def _hook_models(self):
        module_class = self._torch.nn.Module
        of_thread = self._of_thread
        original = module_class.__call__
        outermost = self._outermost_call(original)

        # torch 2: do the same as its __call__, without the extra call, which costs as much as our code.
        if original.__code__.co_names == ("_compiled_call_impl", "_call_impl"):

            @functools.wraps(original)
            def call(self, *args, **kwargs):
                if not of_thread.inside:
                    return outermost(self, *args, **kwargs)
                if self._compiled_call_impl is not None:
                    return self._compiled_call_impl(*args, **kwargs)
                return self._call_impl(*args, **kwargs)
        else:

            @functools.wraps(original)
            def call(*args, **kwargs):
                return original(*args, **kwargs) if of_thread.inside else outermost(*args, **kwargs)

        module_class.__call__ = call
        self._hide_from_compiler(original, call)

    def _outermost_call(self, original):
        hooks = self
        models = self._script.models
        of_thread = self._of_thread
        is_grad_enabled = self._torch.is_grad_enabled
        calls = self._calls

        def outermost(self, *args, **kwargs):
            if not hooks.enabled or not (id(self) in models or _has_parameters(self)):
                return original(self, *args, **kwargs)
            boundaries = of_thread.boundaries
            try:
                if calls and hooks._is_part(self):
                    boundaries.part_begins()
                else:
                    boundaries.call_begins(self, is_grad_enabled())
            except Exception as error:
                hooks._failed(error)
            failed = True
            try:
                of_thread.inside = True
                calls[boundaries] = self
                result = original(self, *args, **kwargs)
                failed = False
            finally:
                of_thread.inside = False
                calls.pop(boundaries, None)
                if failed or boundaries.until != STEP or not hooks.enabled:
                    hooks._tell(boundaries.call_ends, failed)
            return result

        return outermost

    def _is_part(self, module):
        """Whether another thread is in a call of the model that this module belongs to, and probably waits for this thread."""
        for model in list(self._calls.values()):
            if model is module:
                continue
            pair = (id(model), id(module))
            if pair not in self._contains:
                if len(self._contains) > 4096:
                    self._contains.clear()
                self._contains[pair] = any(part is module for part in model.modules())
            if self._contains[pair]:
                return True
        return False

    def _hide_from_compiler(self, original, call):
        """torch.compile must see the inside of a call, not our wrapper."""
        call._torchdynamo_inline = original
        for name in ("torch._dynamo.trace_rules", "torch._dynamo.skipfiles"):  # the latter until torch 2.2
            when_imported(name, lambda rules: hasattr(rules, "add") and rules.add(__package__))
        # It takes the attribute below for the unpatched call, which it need not trace; but it may have read it before.
        for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
            module = sys.modules.get(name)
            if module is not None and getattr(module, "unpatched_nn_module_call", None) is original:
                module.unpatched_nn_module_call = call

    # ----------------------------------------------------------------------------------------------------- backward

    def _hook_backward(self):
        autograd = self._torch.autograd
        autograd.backward = self._hooked_backward(autograd.backward)
        autograd.grad = self._hooked_backward(autograd.grad)

    def _hooked_backward(self, original):
        hooks = self
        of_thread = self._of_thread

        @functools.wraps(original)
        def backward(*args, **kwargs):
            if of_thread.inside or not hooks.enabled:
                return original(*args, **kwargs)
            boundaries = of_thread.boundaries
            try:
                boundaries.backward_begins()
            except Exception as error:
                hooks._failed(error)
            failed = True
            try:
                of_thread.inside = True
                result = original(*args, **kwargs)
                failed = False
            finally:
                of_thread.inside = False
                if failed or boundaries.until != STEP or not hooks.enabled:
                    hooks._tell(boundaries.backward_ends, failed)
            return result

        backward._torchdynamo_inline = original
        return backward

    # --------------------------------------------------------------------------------------------------- optimizers

    def _make_step_hooks(self):
        hooks, of_thread, frame = self, self._of_thread, sys._getframe

        def step_begins(optimizer, args=(), kwargs=None):
            boundaries = of_thread.boundaries
            if not hooks.enabled:
                return boundaries.let_go()
            step = frame(1)  # torch calls no hook if the step raises
            try:
                boundaries.step_begins(optimizer, lambda: _is_running(step))
            except Exception as error:
                hooks._failed(error)

        def step_ends(optimizer, args=(), kwargs=None):
            boundaries = of_thread.boundaries
            if not hooks.enabled:
                return boundaries.let_go()
            try:
                boundaries.step_ends(optimizer)
            except Exception as error:
                hooks._failed(error)

        step_begins._torchdynamo_disable = step_ends._torchdynamo_disable = True  # torch.compile leaves them alone
        return step_begins, step_ends

    def _hook_optimizers(self):
        optimizer_module = sys.modules["torch.optim.optimizer"]  # torch.optim hides it
        optimizer_class = self._torch.optim.Optimizer
        hooks = self
        has_global_hooks = hasattr(optimizer_module, "register_optimizer_step_pre_hook")
        if has_global_hooks:
            optimizer_module.register_optimizer_step_pre_hook(self._step_begins)
            optimizer_module.register_optimizer_step_post_hook(self._step_ends)

        original_add = optimizer_class.add_param_group

        @functools.wraps(original_add)
        def add_param_group(self, *args, **kwargs):
            result = original_add(self, *args, **kwargs)
            hooks._tell(hooks._script.changed, self)
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

    # ------------------------------------------------------------------------------------------------------- graphs

    def hook_graphs(self):
        """A captured CUDA graph that a script replays by itself counts as a model."""
        hooks = self
        of_thread = self._of_thread
        graph_class = self._torch.cuda.CUDAGraph
        original = graph_class.replay

        @functools.wraps(original)
        def replay(self):
            if of_thread.inside or not hooks.enabled:
                return original(self)
            if not hasattr(self, "_salus_model"):
                self._salus_model = _GraphAsModel()
            boundaries = of_thread.boundaries
            hooks._tell(boundaries.call_begins, self._salus_model, False)
            failed = True
            try:
                result = original(self)
                failed = False
            finally:
                hooks._tell(boundaries.call_ends, failed)
            return result

        graph_class.replay = replay

    # ------------------------------------------------------------------------------------------------------ loaders

    def _hook_loaders(self):
        """A script that fetches data between its calls works through a queue: nobody waits for its answers."""
        device = self._device

        def hook(dataloader):
            iterator_class = dataloader._BaseDataLoaderIter
            original = iterator_class.__next__

            @functools.wraps(original)
            def fetch(self):
                device.fetched()
                return original(self)

            iterator_class.__next__ = fetch
            if getattr(iterator_class, "next", None) is original:
                iterator_class.next = fetch

        when_imported("torch.utils.data.dataloader", hook)

    # ------------------------------------------------------------------------------------------------------ scalers

    def _hook_scalers(self):
        """A step that GradScaler skips because of an overflow still ends an iteration."""
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
            before = boundaries.steps
            result = original(self, optimizer, *args, **kwargs)
            if boundaries.steps == before:
                hooks._step_begins(optimizer)
                hooks._step_ends(optimizer)
            return result

        scaler.step = step


class _GraphAsModel:
    """The interface of a model that Boundaries uses."""

    training = False

    def parameters(self):
        return ()


class _AtEnd:
    """Dies with its thread."""

    def __init__(self, hooks, boundaries):
        self._hooks, self._boundaries = hooks, boundaries

    def __del__(self):
        self._hooks._tell(self._boundaries.finished)


def _has_parameters(module):
    """Like module.parameters(), but cheaper: every loss function pays for this call."""
    try:
        for parameter in module._parameters.values():
            if parameter is not None:
                return True
        return any(child is not None and _has_parameters(child) for child in module._modules.values())
    except AttributeError:  # not initialised: torch will say so
        return False


def _is_running(frame):
    """Whether this thread is inside that call."""
    caller = sys._getframe(1)
    while caller is not None and caller is not frame:
        caller = caller.f_back
    return caller is not None


def _is_ours(error):
    """Whether the error was not raised by a signal handler, which may run at any time."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] in (__package__, "torch")

"""Finds where iterations begin and end, from what a script does with models and optimizers.

Pure: knows neither torch nor the service. Events come in: a model is called, backward runs, an optimizer steps. Calls of a
device go out:
 - begin(kind) waits for this job's turn
 - join(kind) enters the iteration of a thread that waits for this one
 - end() is a boundary after a whole iteration
 - answer() is the same after one that was a forward pass and no more: inference
 - doubt() is a boundary after a call that was perhaps one
 - leave() is a boundary that ends no iteration
 - count() adds iterations that were not counted at their boundary

The rules:
 - A call of a model that an optimizer trains begins an iteration, and the optimizer's step ends it. Further calls, several
   backward passes (gradient accumulation) and calls without gradients (a teacher) in between belong to it.
 - An optimizer steps once in an iteration. Another one's step belongs to the same iteration if the models called for the one
   are trained by the other, as in a GAN, or if it follows with no call of a model in between.
 - Any other call of a model is an iteration by itself: inference.

Note [What ends it]
An iteration may end with the call itself, with backward, or with a step. At first the model's mode and owners decide which.
Later, what really followed decides: backward after an apparent inference (saliency, training by hand); a step after that (the
optimizer has the input, or parameters that we did not see); or no step for much longer than ever before (gradients of a trained
model).

Note [Doubtful calls]
Some calls can be classified only afterwards: a model that nobody trains, called before the trained model, may be its teacher
or may be under evaluation. After such a call the device is given up, so that nobody is held up; the call is counted when the
next events show what it was. A call that precedes every training step belongs to the step, and from the second time on keeps the
device. A call that comes only now and then, or again and again, is inference.

Note [Optimizers that are awaited]
After a step the device is kept while another optimizer of the called models has not stepped: it will step soon, and live blocks
need not move. If the first optimizer steps again instead, the other one is rare and no longer awaited. If it steps later, that
is one more piece of work of the same iteration, and is not counted again.

Note [The usual iteration]
Most trainings repeat one iteration: a call of the same model, backward, a step of the only optimizer. What the rules make of its
call and of its step is noted (_Usual), so that the next one need not go through them again. Whatever the rules look at is covered:
changes of the script's models and optimizers begin a new epoch; a thread's own deviations replace its last iteration, or forget
what was noted. If a test in the shortcut fails, the rules decide, and they never read what was noted.
"""

import itertools
import threading
import weakref

# Iterations of one kind allocate alike: the same model in the same mode. Iterations that begin without a model have kinds of
# their own.
_KINDS = (1 << 64) - 1
_BACKWARD_FIRST, _STEP_FIRST = 1, 2

_NONE = frozenset()

# What ends a piece of work that holds the device: see Note [What ends it]. A preamble ends with the call of a trained model, a
# part of another thread's iteration with its own return.
_RETURN, _PREAMBLE, _BACKWARD, STEP, _PART = 1, 2, 3, 4, 5
_TRAINING = (STEP, _BACKWARD)
_ITS_RETURN = (_RETURN, _PART)

_PENDING_MOST = 2      # doubtful calls of a model that are not counted yet
_PREAMBLES_MOST = 8    # models that were trained last
_WORK_AT_FIRST = 64    # calls and backward passes in an iteration, while nothing is known


class _Model:
    """What is known about a model."""

    __slots__ = ("_reference", "module", "kinds", "version", "owners", "ends_with", "work_most")

    def __init__(self, key=0, reference=None):
        self._reference = reference
        self.module = key              # its id
        # The kinds of its iterations: without and with gradients, in eval and in training mode.
        self.kinds = [[hash((key, gradients, training)) & _KINDS for training in (False, True)] for gradients in (False, True)]
        self.version = -1
        self.owners = frozenset()      # the optimizers that train some of its parameters
        self.ends_with = [None, None]  # what ended its iterations, in eval and in training mode
        self.work_most = 0             # calls and backward passes in the longest iteration that it began

    def work_bound(self):
        return 4 * (self.work_most or _WORK_AT_FIRST) + 8


class Script:
    """The models and optimizers of a script. Shared by all its threads. Optimizers have numbers, later ones larger."""

    def __init__(self, parameters_of):
        self._parameters_of = parameters_of
        self._lock = threading.Lock()
        self.models = {}              # id -> _Model
        self._optimizers = {}         # number -> weak reference
        self._numbers = {}            # id -> number
        self._owners = {}             # id of a parameter -> numbers
        self._changes = itertools.count(1)
        self.version = 0              # changes with the optimizers and their parameters; later versions are larger
        self.epoch = 0                # changes with the version, and with whatever else is known for all threads
        self._built = -1              # the version for which _owners was built
        self.stepped = set()          # optimizers that ever stepped
        self.stepped_in = {}          # optimizer -> the Boundaries of the thread in which it last stepped
        self.only_stepper = None      # the only one of these Boundaries, if there is just one
        self.not_awaited = set()      # see Note [Optimizers that are awaited]
        self.no_model = _Model()      # stands for the model if an iteration begins without one

    def changed(self, optimizer):
        """The optimizer is new, or trains new parameters."""
        key = id(optimizer)
        if key not in self._numbers:
            number = next(self._changes)

            def gone(_):
                self._numbers.pop(key, None)
                self._optimizers.pop(number, None)
                self.stepped_in.pop(number, None)
                self.version = self.epoch = next(self._changes)

            self._optimizers[number] = weakref.ref(optimizer, gone)
            self._numbers[key] = number
        self.version = self.epoch = next(self._changes)

    def number_of(self, optimizer):
        number = self._numbers.get(id(optimizer))
        if number is None:
            self.changed(optimizer)
            number = self._numbers[id(optimizer)]
        return number

    def has_optimizers(self):
        return bool(self._optimizers)

    def steps_in(self, number, boundaries):
        """An optimizer steps for the first time, or for the first time in this thread."""
        with self._lock:
            self.stepped.add(number)
            self.stepped_in[number] = boundaries
            self.only_stepper = boundaries if set(list(self.stepped_in.values())) == {boundaries} else None
            self.epoch = next(self._changes)

    def ends_with(self, model, training, event):
        """Iterations that begin with this model in this mode end with that event."""
        if model.ends_with[training] != event:
            model.ends_with[training] = event
            self.epoch = next(self._changes)

    def awaited(self, optimizers):
        return {number for number in optimizers if number in self._optimizers and number not in self.not_awaited}

    def model(self, module):
        key = id(module)
        model = self.models.get(key)
        if model is None:

            def gone(_):
                self.models.pop(key, None)
                self.epoch = next(self._changes)

            model = self.models[key] = _Model(key, weakref.ref(module, gone))
        version = self.version
        if model.version != version:
            model.owners = self._owners_of(module)
            model.version = version
        return model

    def _owners_of(self, module):
        with self._lock:
            if self._built != self.version:
                self._build()
            return frozenset().union(*(self._owners.get(id(parameter), ()) for parameter in self._parameters_of(module)))

    def _build(self):
        version, owners = self.version, {}
        for number, reference in list(self._optimizers.items()):
            for group in getattr(reference(), "param_groups", ()):
                for parameter in group["params"]:
                    owners.setdefault(id(parameter), set()).add(number)
        self._owners, self._built = owners, version


class _Iteration:
    """An iteration that a step or backward has ended, or is about to end."""

    __slots__ = ("stepped", "coupled", "called", "counted", "began_with", "late", "late_before", "_newest")

    def __init__(self, newest=float("inf"), began_with=None, late_before=_NONE):
        self.stepped = _NONE            # the optimizers that stepped
        self.coupled = _NONE            # the optimizers of the called models
        self.called = False             # a model was called
        self.counted = False
        self.began_with = began_with    # a model and its mode, if backward ended it
        self.late = _NONE               # optimizers that stepped after its boundary
        self.late_before = late_before  # ... after the boundary of the iteration before
        self._newest = newest

    def takes(self, optimizer, owners, called):
        """Whether a step belongs to this iteration, too; `owners` are the optimizers of the models called for the step."""
        if optimizer in self.stepped or optimizer > self._newest:
            return False
        return not called or optimizer in self.coupled or bool(owners & self.stepped)


class _Usual:
    """Note [The usual iteration]."""

    __slots__ = ("epoch", "module", "began_with", "kind", "owners", "work_most", "optimizer", "iteration")

    def __init__(self, epoch, module, model, optimizer, iteration):
        self.epoch = epoch
        self.module = module            # its id
        self.began_with = model, True
        self.kind = model.kinds[True][True]
        self.owners = model.owners
        self.work_most = model.work_most
        self.optimizer = optimizer      # its id
        self.iteration = iteration      # the last one; the next ones are like it


class Boundaries:
    """The boundaries of one thread."""

    def __init__(self, device, script):
        self._device = device
        self._script = script
        self.steps = 0              # ended steps
        # The current piece of work, if the device is held.
        self.until = None           # what ends it. If that is STEP, the return of a call or of backward changes nothing
        self._counts = False        # ... if it is a return: whether the return ends an iteration
        self._began_with = None     # a model and its mode
        self._stepping = False      # an optimizer calls the model (LBFGS)
        self._still_steps = None    # tells whether it still steps, or has raised
        # Since the last step or boundary.
        self._calls = 0
        self._passes = 0            # backward passes
        self._owners = _NONE        # optimizers of the called models, also of doubtful calls before
        self._called = False        # a model was called
        # The iteration of the last step or backward; it is still the current one if it is not counted yet.
        self._iteration = None
        # Doubtful calls since training last began.
        self._pending = []          # calls that may have to be counted: (model, its mode, gradients)
        self._doubted = {}          # all doubtful calls: model -> number of calls
        self._preambles = {}        # model -> the doubtful calls before it was last trained
        self._trained_last = None
        self._usual = None

    # ------------------------------------------------------------------------------------------------------- models

    def call_begins(self, module, gradients):
        """The outermost call of a model with parameters. `gradients`: whether gradients are recorded."""
        usual = self._usual
        if (usual is not None and usual.epoch == self._script.epoch and usual.module == id(module) and self.until is None
                and gradients and module.training and self._iteration is usual.iteration):
            self._owners, self._called = usual.owners, True
            self._begin(usual.kind)
            self.until, self._began_with = STEP, usual.began_with
            self._calls, self._passes = 1, 0
            return
        if self._stepping:
            self._look_at_step()
        model, training = self._script.model(module), bool(module.training)
        evaluates = bool(model.owners) and not gradients and not training
        if self.until in _TRAINING and not self._stepping and self._is_trained_elsewhere(model):
            self.broken_off()
        if self.until in _TRAINING:
            if self._stepping or not evaluates and self._calls + self._passes <= self._began_with[0].work_bound():
                self._calls += 1
                self._join(model)
                return
            self._give_up()
        kind = model.kinds[gradients][training]
        ends_with = _RETURN
        if gradients:
            ends_with = model.ends_with[training] or (STEP if training and model.owners else _RETURN)
            if ends_with == STEP and not model.owners and not self._script.has_optimizers():
                ends_with = _BACKWARD
            if ends_with == STEP and self._is_trained_elsewhere(model):
                self.part_begins(kind)
                return
        if ends_with != _RETURN:
            self._train(ends_with, kind, (model, training))
            self._calls += 1
        elif evaluates or not gradients and not self._script.has_optimizers():
            self._infer(kind)
        else:
            self._doubt(model, training, gradients, kind)

    def _is_trained_elsewhere(self, model):
        """Whether its optimizers step in other threads: then this thread works for those, and no step will come here."""
        if self._script.only_stepper is self:
            return False
        stepped_in = self._script.stepped_in
        return bool(model.owners) and all(stepped_in.get(owner, self) is not self for owner in model.owners)

    def part_begins(self, kind=0):
        """A call that is part of another thread's iteration: the device is held during the call."""
        if self.until is None:
            self._begin(kind, self._device.join)
            self.until = _PART

    def call_ends(self, failed=False):
        if failed:
            if self.until == _RETURN and not self._counts:
                self._pending.pop()
            self.broken_off()
        elif self.until in _ITS_RETURN:
            self._close(self.until == _RETURN and self._counts)

    def _join(self, model):
        self._owners = self._owners | model.owners if self._owners else model.owners
        self._called = True

    def _give_up(self):
        """The awaited step or backward does not come."""
        model, training = self._began_with
        if self._calls + self._passes > model.work_bound():
            self._script.ends_with(model, training, _BACKWARD if self._passes else _RETURN)
            self._device.count(self._passes or self._calls)
        self.broken_off()

    def _train(self, ends_with, kind, began_with):
        model = began_with[0]
        if self._doubted or model is not self._trained_last or self._preambles[model]:
            self._settle(model)
        if model is not self._script.no_model:
            self._join(model)
        self._begin(kind)
        self.until = ends_with
        self._began_with = began_with
        self._calls = self._passes = 0

    def _infer(self, kind):
        self._count_pending()
        if self.until == _PREAMBLE:  # no trained model has followed
            self._close(True)
        self._forget_work()
        self._iteration = None
        self._begin(kind)
        self.until, self._counts = _RETURN, True

    def _doubt(self, model, training, gradients, kind):
        self._usual = None
        calls = self._doubted[model] = self._doubted.get(model, 0) + 1
        expected = any(calls <= preamble.get(model, 0) for preamble in self._preambles.values())
        if calls > 1 and not expected and not gradients:
            self._infer(kind)
            return
        self._begin(kind)
        self._join(model)
        if expected:
            self.until = _PREAMBLE
            return
        self.until, self._counts = _RETURN, False
        self._pending.append((model, training, gradients))
        if min(calls, len(self._pending)) > _PENDING_MOST:
            del self._pending[0]
            self._device.count(1)

    def _settle(self, model):
        """The model is trained. Doubtful calls before it belong to its iteration if they are usual, or if nothing is known yet."""
        if self._pending:
            first = self._script.stepped.isdisjoint(self._owners | model.owners)
            if not first or max(self._doubted.values()) > 1:
                self._count_pending()
                self._forget_work()
                self._iteration = None
            self._pending = []
        self._usual = None
        self._preambles.pop(model, None)
        self._preambles[model], self._doubted = self._doubted, {}
        if len(self._preambles) > _PREAMBLES_MOST:
            del self._preambles[next(iter(self._preambles))]
        self._trained_last = model

    def _count_pending(self):
        if self._pending:
            self._device.count(len(self._pending))
        self._pending = []

    # ----------------------------------------------------------------------------------------------------- backward

    def backward_begins(self):
        if self._stepping:
            self._look_at_step()
        if self.until not in _TRAINING:
            self._train(*self._begun_by_backward())
        self._passes += 1

    def _begun_by_backward(self):
        if self._pending and self._pending[-1][2]:  # its last call recorded gradients: no inference
            model, training, _ = self._pending.pop()
            self._doubted[model] -= 1
            self._script.ends_with(model, training, _BACKWARD)
            return _BACKWARD, _BACKWARD_FIRST, (model, training)
        model, last = self._script.no_model, self._iteration
        if not self._called and last is not None and last.began_with is not None:
            ends_with = _BACKWARD  # one more pass over the same graph
        else:
            ends_with = model.ends_with[True] or STEP if self._script.has_optimizers() else _BACKWARD
        return ends_with, _BACKWARD_FIRST, (model, True)

    def backward_ends(self, failed=False):
        if failed:
            self.broken_off()
        elif self.until == _BACKWARD and not self._stepping:
            last = self._iteration
            again = not self._called and last is not None and last.called
            if not again:
                self._iteration = _Iteration(began_with=self._began_with)
                self._iteration.called = self._called
            self._note_work()
            self._close(not again)
            self._iteration.counted = True

    # ---------------------------------------------------------------------------------------------------- optimizers

    def step_begins(self, optimizer, still_steps=None):
        """A step that raises does not end: then `still_steps` says no."""
        if self.until not in _TRAINING:
            self._train(STEP, _STEP_FIRST, (self._script.no_model, True))
        self._stepping, self._still_steps = True, still_steps

    def _look_at_step(self):
        if self._still_steps is not None and not self._still_steps():
            self.broken_off()

    def step_ends(self, optimizer):
        self.steps += 1
        usual = self._usual
        if (usual is not None and usual.optimizer == id(optimizer) and usual.epoch == self._script.epoch and self.until == STEP
                and self._iteration is usual.iteration and self._owners == usual.owners
                and self._calls + self._passes <= usual.work_most):
            self.until = None  # as _close() does it
            self._stepping, self._still_steps = False, None
            self._calls = self._passes = 0
            self._owners, self._called = _NONE, False
            self._device.end()
            return
        self._usual = None
        self._stepping, self._still_steps = False, None
        if self.until not in _TRAINING:
            return
        number = self._script.number_of(optimizer)
        iteration = self._iteration_of_step(number)
        iteration.stepped = iteration.stepped | {number}
        iteration.coupled = iteration.coupled | self._owners if iteration.coupled else self._owners
        iteration.called |= self._called
        if self._script.stepped_in.get(number) is not self:
            self._script.steps_in(number, self)
        self._note_work()
        if not iteration.coupled <= iteration.stepped and self._script.awaited(iteration.coupled - iteration.stepped):
            self.until = STEP
            self._forget_work()
            return
        began_with = self._began_with
        self._close(not iteration.counted)
        iteration.counted = True
        self._note_usual(began_with, number, optimizer)

    def _note_usual(self, began_with, number, optimizer):
        """An iteration that began so has ended with this step. Notes it if the next one, begun likewise, is sure to be like it."""
        script, iteration, (model, training) = self._script, self._iteration, began_with
        epoch = script.epoch  # first: other threads may change something
        if (training and model is self._trained_last and not self._doubted and not self._preambles[model]
                and model.version == script.version and model.ends_with[True] in (None, STEP)
                and iteration.stepped == iteration.coupled == model.owners == {number}
                and not iteration.late and not iteration.late_before and iteration.began_with is None
                and script.only_stepper is self and script.stepped_in.get(number) is self):
            self._usual = _Usual(epoch, model.module, model, id(optimizer), iteration)

    def _iteration_of_step(self, number):
        last = self._iteration
        if last is not None and last.takes(number, self._owners, self._called):
            if last.began_with is not None:
                self._script.ends_with(*last.began_with, STEP)
            if last.counted:
                last.late = last.late | {number}
                if number in last.late_before:  # every time, now
                    self._script.not_awaited.discard(number)
            return last
        late = _NONE
        if last is not None:
            late = last.late
            if not last.counted:
                self._device.count(1)
                self._script.not_awaited |= last.coupled - last.stepped
        self._iteration = _Iteration(self._script.version, late_before=late)
        return self._iteration

    def _note_work(self):
        model, work = self._began_with[0], self._calls + self._passes
        if work > model.work_most:
            model.work_most = work

    # ---------------------------------------------------------------------------------------------------- boundaries

    def _begin(self, kind, enter=None):
        if self.until is not None:
            return
        self.until, self._counts = _RETURN, False  # first: if anything raises from here on, the device is left
        try:
            (enter or self._device.begin)(kind)
        except BaseException:
            self._close(False)
            raise

    def _close(self, counts):
        # First: a signal handler may raise at any moment; broken_off() or the next begin then cleans up.
        until, self.until = self.until, None
        self._stepping, self._still_steps = False, None
        if until != _RETURN:
            self._forget_work()
        if not counts:
            (self._device.doubt if until == _RETURN else self._device.leave)()
        elif until == _RETURN or until == _PREAMBLE:
            self._device.answer()
        else:
            self._device.end()

    def _forget_work(self):
        self._calls = self._passes = 0
        self._owners = _NONE
        self._called = False

    def broken_off(self):
        """An exception, a debugger or the end of a cell has interrupted the current work."""
        if self.until is None:
            self._device.leave()  # does nothing unless _close() was interrupted
            return
        unfinished = self._iteration is not None and not self._iteration.counted
        self._close(unfinished)  # an optimizer has stepped in it
        self._iteration = None
        self._forget_work()

    def let_go(self):
        """Stop looking for boundaries, and release the device."""
        if self.until is not None:
            self.until = None
            self._device.leave()

    def finished(self):
        """The thread has ended."""
        self.broken_off()
        self._count_pending()

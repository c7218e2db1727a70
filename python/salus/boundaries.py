"""Where iterations begin and end, told from what a script does with models and optimizers.

Pure: knows neither torch nor the service. Events come in (a model is called, backward runs, an optimizer steps); what comes
out are calls of a device: begin(kind) waits for this job's turn, end() is a boundary after a whole iteration, leave() one that
is none, count() adds iterations that were not counted at their boundary.

The rules:
 - A call of a model that an optimizer trains begins an iteration, and the optimizer's step ends it. Further calls, several
   backward passes (gradient accumulation) and calls without gradients (a teacher) in between belong to it.
 - Several optimizers make one iteration together if the models they train were called in it: a GAN's round of both. That
   some optimizer did not step while another did twice shows that its step is not to be waited for.
 - Any other call of a model is an iteration by itself: inference.
 - A script without optimizers that calls backward: from the model's call to the end of backward.

Note [Doubtful calls]
Some calls can be told only afterwards: a model that nobody trains, called before the one that is trained, may be its teacher
or may be evaluated. The device is given up after such a call in any case, so that nobody is held up, but the iteration is not
counted before the next event shows what it was: if the trained model follows, the call was a preamble of its iteration, and
from then on keeps it open; if it is called again, both were inference.
"""

import weakref

# Iterations of one kind allocate alike: the same model, in the same mode. Those that begin otherwise have kinds of their own.
_KINDS = (1 << 64) - 1
_BACKWARD_FIRST, _STEP_FIRST = 1, 2


class Optimizers:
    """Who trains what. Shared by all threads."""

    def __init__(self):
        self._alive = weakref.WeakSet()
        self._version = 0
        self._owners_of_parameter = {}
        self._owners_of_model = weakref.WeakKeyDictionary()
        self._built = -1

    def changed(self, optimizer):
        """It is new, or has new parameters."""
        self._alive.add(optimizer)
        self._version += 1

    def exist(self):
        return len(self._alive) > 0

    def owners(self, model, parameters):
        """The optimizers that train some of this model's parameters; `parameters()` lists them."""
        known = self._owners_of_model.get(model)
        if known is not None and known[0] == self._version:
            return known[1]
        if self._built != self._version:
            self._build()
        owners = weakref.WeakSet()
        for parameter in parameters():
            for owner in self._owners_of_parameter.get(id(parameter), ()):
                owners.add(owner)
        self._owners_of_model[model] = (self._version, owners)
        return owners

    def _build(self):
        self._owners_of_parameter = {}
        for optimizer in list(self._alive):
            for group in getattr(optimizer, "param_groups", ()):
                for parameter in group["params"]:
                    self._owners_of_parameter.setdefault(id(parameter), weakref.WeakSet()).add(optimizer)
        self._built = self._version


class Learned:
    """What earlier iterations showed. Shared by all threads."""

    def __init__(self):
        self.not_awaited = weakref.WeakKeyDictionary()  # optimizer -> optimizers whose step need not follow its own
        self.preambles = weakref.WeakKeyDictionary()    # model -> calls of it before a trained model's, in the last round
        self.trained_anyway = weakref.WeakSet()         # models that backward follows, though nothing else said so


class Boundaries:
    """Of one thread."""

    def __init__(self, device, optimizers, learned):
        self._device = device
        self._optimizers = optimizers
        self._learned = learned
        self._open = False          # inside an iteration
        self._trains = False        # ... in which a model is trained, so that a step ends it
        self._owed = 0              # doubtful calls since the last boundary that are not counted (yet)
        self._doubtful = None       # the model that was called last, if that is doubtful
        self._called = {}           # model (its id) -> doubtful calls of it since the last step
        self._models = {}           # the same ids -> weak references
        self._only_inference = False  # the calls since the last step have turned out to be inference
        self._coupled = set()       # optimizers of the models called in this iteration
        self._stepped = set()       # optimizers that stepped in it
        self._stepped_last = weakref.WeakSet()  # ... in the one before
        self._worked = False        # a model was called, or backward ran, since the last step

    # ------------------------------------------------------------------------------------------------------- models

    def call_begins(self, model, owners, gradients, training):
        """The outermost call of a model that has parameters. `gradients` are recorded; `training` is the model's mode."""
        if self._open and self._trains:
            self._join(owners)
            return
        trained = gradients and (bool(owners) and training or model in self._learned.trained_anyway)
        kind = hash((id(model), gradients, training))
        if trained:
            self._train(owners, kind)
        elif owners and not gradients and not training or not gradients and not self._optimizers.exist():
            self._infer(kind)
        else:
            self._doubt(model, owners, kind)

    def call_ends(self, failed=False):
        if not self._open:
            return
        if failed:
            self.broken_off()
        elif not self._trains and not self._keep_open:
            self._open = False
            if self._doubtful is None:
                self._device.end()
            else:
                self._device.leave()

    def _join(self, owners):
        self._coupled.update(owners)
        self._worked = True
        self._is_tail = False

    def _begin(self, kind):
        if not self._open:
            self._device.begin(kind & _KINDS)
            self._open = True
        self._keep_open = False

    def _train(self, owners, kind):
        """An iteration that a step ends. What was doubtful before was its preamble."""
        self._settle_preambles()
        self._begin(kind)
        self._trains = True
        self._join(owners)

    def _infer(self, kind):
        self._count_doubtful()
        self._close_preamble()
        self._begin(kind)
        self._doubtful = None

    def _doubt(self, model, owners, kind):
        calls = self._called.get(id(model), 0) + 1
        self._called[id(model)] = calls
        self._models[id(model)] = weakref.ref(model)
        expected = calls <= self._learned.preambles.get(model, 0)
        if calls > 1 and not expected:
            self._only_inference = True
        if self._only_inference:
            self._infer(kind)
            return
        self._begin(kind)
        self._coupled.update(owners)
        self._doubtful = weakref.ref(model)
        self._owed += 1
        self._keep_open = expected

    def _count_doubtful(self):
        """They were inference: iterations, each of them."""
        if self._owed:
            self._device.count(self._owed)
            self._coupled.clear()
        self._owed = 0
        self._doubtful = None

    def _close_preamble(self):
        """A preamble was kept open, and nothing that is trained followed."""
        if self._open and self._keep_open:
            self._open = False
            self._device.leave()

    def _settle_preambles(self):
        preambles = self._learned.preambles
        for model in list(preambles):
            if id(model) not in self._called:
                del preambles[model]
        if self._only_inference:
            self._count_doubtful()
        else:
            for key, calls in self._called.items():
                model = self._models[key]()
                if model is not None:
                    preambles[model] = calls
        self._owed = 0
        self._doubtful = None
        self._called.clear()
        self._models.clear()
        self._only_inference = False

    # ----------------------------------------------------------------------------------------------------- backward

    def backward_begins(self):
        self._worked = True
        if self._open and self._trains:
            return
        model = self._doubtful() if self._doubtful is not None else None
        if model is not None:  # it was training after all
            self._learned.trained_anyway.add(model)
            self._called.pop(id(model), None)
            self._owed = max(0, self._owed - 1)
        self._train(self._coupled, _BACKWARD_FIRST)

    def backward_ends(self):
        if self._open and self._trains and not self._optimizers.exist():
            self._end()

    # ---------------------------------------------------------------------------------------------------- optimizers

    def step_begins(self, optimizer):
        if self._open and self._trains:
            return
        self._is_tail = not self._worked and optimizer not in self._stepped_last and bool(self._stepped_last)
        if self._is_tail:
            self._begin(_STEP_FIRST)
            self._trains = True
        else:
            self._train((), _STEP_FIRST)

    def step_ends(self, optimizer):
        if not (self._open and self._trains):
            return
        if self._is_tail:  # of the iteration before: another optimizer's step, with nothing in between
            self._stepped_last.add(optimizer)
            self._leave()
            return
        awaited = self._awaited(optimizer)
        if awaited and optimizer in self._stepped:
            # It steps again, and they have not: they do not belong to its iteration.
            self._learned.not_awaited.setdefault(optimizer, weakref.WeakSet()).update(awaited)
            awaited = ()
        self._stepped.add(optimizer)
        self._worked = False
        if not awaited:
            self._end()

    def _awaited(self, optimizer):
        known = self._learned.not_awaited.get(optimizer, ())
        return [other for other in self._coupled - self._stepped - {optimizer} if other not in known]

    # ---------------------------------------------------------------------------------------------------- boundaries

    def _end(self):
        self._stepped_last = weakref.WeakSet(self._stepped)
        self._forget_iteration()
        self._device.end()

    def _leave(self):
        self._forget_iteration()
        self._device.leave()

    def _forget_iteration(self):
        self._open = self._trains = self._keep_open = self._is_tail = False
        self._coupled = set()
        self._stepped = set()
        self._worked = False

    def broken_off(self):
        """An exception, a debugger, the end of a cell: whatever was going on does not go on now."""
        if self._open:
            self._leave()

    def finished(self):
        """The thread does nothing more."""
        self.broken_off()
        self._count_doubtful()

    # Only within one iteration.
    _keep_open = False  # it waits for a trained model's call
    _is_tail = False

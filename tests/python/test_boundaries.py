"""Unit tests of python/salus/boundaries.py: what a script does -> what is asked of the device.

A row of the tables is what happens in a script, in order, and after each event what it makes of it:

    m        a call of model m in training mode with gradients     O        optimizer O steps
    m-       ... without gradients                                 O{ }O    ... its step begins, and ends (LBFGS)
    m.       ... in eval mode                                      b        backward
    m! b! O! ... it raises                                         break    whatever went on does not go on
    +O -O    optimizer O is made, or is gone                       finish   the script is over

    (        begin: the device is waited for                       )        end: a boundary, one iteration more
    ]        leave: a boundary, none more                          3        three iterations are counted later
"""

import gc
import os
import random
import sys
import unittest
import weakref

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
from salus.boundaries import Boundaries, Script  # noqa: E402


class Parameter:
    pass


class Model:
    __hash__ = None  # models need not be hashable
    training = True

    def __init__(self):
        self.own = [Parameter(), Parameter()]

    def __eq__(self, other):
        raise AssertionError("nobody compares models")


class Optimizer:
    def __init__(self, parameters):
        self.param_groups = [{"params": parameters}]


class Device:
    """Writes down what is asked of it, and that it makes sense."""

    def __init__(self):
        self.calls = []
        self.held = False
        self.counted = 0
        self.answered = 0
        self.kinds = []
        self.fails = None

    def begin(self, kind):
        assert not self.held and 0 <= kind < 1 << 64
        self.kinds.append(kind)
        if self.fails:
            fails, self.fails = self.fails, None
            raise fails
        self.calls.append("(")
        self.held = True

    def join(self, kind):
        self.begin(kind)

    def end(self):
        assert self.held
        self.calls.append(")")
        self.held = False
        self.counted += 1

    def answer(self):
        self.end()
        self.answered += 1

    def doubt(self):
        self.leave()

    def leave(self):
        if self.held:  # else: it may be left once too often, after begin() has raised
            self.calls.append("]")
        self.held = False

    def count(self, iterations):
        assert iterations > 0
        self.calls.append(str(iterations))
        self.counted += iterations


class World:
    """A script's models and optimizers. `owners`: what each optimizer trains, a model or the half of one: m, m0, m1."""

    def __init__(self, **owners):
        self.device = Device()
        self.script = Script(lambda model: iter(model.own))
        self.boundaries = Boundaries(self.device, self.script)
        self.owners = owners
        self.models = {}
        self.optimizers = {}
        self.depth = 0

    def model(self, name):
        return self.models.setdefault(name, Model())

    def make(self, name):
        parameters = []
        for part in self.owners[name].split():
            own = self.model(part.rstrip("01")).own
            parameters += [own[int(part[-1])]] if part[-1] in "01" else own
        self.optimizers[name] = Optimizer(parameters)
        self.script.changed(self.optimizers[name])

    def happens(self, event):
        boundaries = self.boundaries
        failed = event.endswith("!")
        name = event.strip("!-.{}+")
        if event == "break":
            boundaries.broken_off()
        elif event == "finish":
            boundaries.finished()
        elif event[0] == "+":
            self.make(name)
        elif event[0] == "-":
            del self.optimizers[name]
        elif name == "b":
            boundaries.backward_begins()
            boundaries.backward_ends(failed)
        elif name.isupper():
            if not event.startswith("}"):
                boundaries.step_begins(self.optimizers[name], lambda: not failed)
            if not event.endswith(("{", "!")):
                boundaries.step_ends(self.optimizers[name])
        else:
            model = self.model(name)
            model.training = "." not in event
            boundaries.call_begins(model, "-" not in event)
            boundaries.call_ends(failed)


def is_device_call(token):
    return token in ("(", ")", "]") or token.isdigit()


def play(row, **owners):
    """Plays a row. Gives back what it should be, and what it was."""
    world = World(**owners)
    for name in owners:
        if "+" + name not in row.split():
            world.make(name)
    was = []
    for event in row.split():
        if not is_device_call(event):
            before = len(world.device.calls)
            world.happens(event)
            was += [event] + world.device.calls[before:]
    return " ".join(row.split()), " ".join(was)


class Tables(unittest.TestCase):
    maxDiff = None

    def rows(self, owners, *rows):
        for row in rows:
            with self.subTest(row=row):
                should_be, was = play(row, **owners)
                self.assertEqual(should_be, was)

    def test_one_optimizer(self):
        self.rows(
            {"O": "m"},
            "m ( b O ) " * 3,
            "O ( ) O ( ) ",                          # no model at all
            "m ( b m b m b m b O ) " * 2,            # gradient accumulation
            "m ( m m b O ) m ( b b O ) ",            # siamese twins; two losses
            "m ( b O ) m.- ( ) m.- ( ) m ( b O )",   # evaluation
            "m ( b O ) m.- ( ) m ( b O )",           # ... of a single batch
            "m.- ( ) m ( b O )",
            "O{ ( m b m b m b }O ) " * 2,            # LBFGS
            "O{ ( m m.- b }O )",
            "m ( O{ m b }O )",
        )

    def test_steps_that_raise(self):
        self.rows(
            dict(O="m"),
            "m ( b O ) m ( b O! m.- ] ( ) m.- ( ) m ( b O )",  # evaluation follows, and holds nobody up
            "m ( b O ) m ( b O! m ] ( b O )",
            "m ( b O ) O! ( m ] ( b O )",
            "m ( b O! b ] ( O )",
        )

    def test_evaluation_that_is_sloppy(self):
        self.rows(
            {"O": "m"},
            "m ( b O ) m. ( ] m. ( ] m 2 ( b O )",                # with gradients
            "m ( b O ) m. ( ] m. ( ] m. ( 1 ] m. ( 1 ] finish 2",
            "m ( b O ) m- ( ] m- 1 ( ) m- ( ) m ( b O )",         # in training mode
            "m ( b O ) m- ( ] m 1 ( b O ) m ( b O )",             # ... one batch now and then
            "m ( b O ) e.- ( ] e.- 1 ( ) m ( b O ) m ( b O )",    # a moving average, which nobody trains
            "m ( b m b O ) m ( b m.- ] ( ) m.- ( ) m ( b O )",    # micro-batches are left over
        )
        # Neither eval mode nor no_grad: told from a step that does not come for long.
        self.rows({"O": "m"}, "m ( b O ) m (" + " m" * 16 + " m 17 ] ( ] m ( ] m ( 1 ] m ( 1 ] finish 2")

    def test_inference(self):
        self.rows(
            {},
            "m.- ( ) m.- ( ) n.- ( ) finish",
            "m- ( ) m- ( )",
            "m. ( ] finish 1",
            "m. ( ] m. ( ] m. ( 1 ] m. ( 1 ] finish 2",
            "m. ( ] n. ( ] m. ( ] n. ( ] finish 4",
        )
        self.rows({"O": "m"}, "+O m ( b O )", "m.- ( ) m.- ( ) +O m ( b O )", "m ( ] +O m ( b O )")

    def test_which_iterations_were_answers(self):
        device = Device()
        script = Script(lambda model: iter(model.own))
        boundaries = Boundaries(device, script)
        model = Model()
        model.training = False
        for _ in range(2):
            boundaries.call_begins(model, False)
            boundaries.call_ends()
        self.assertEqual((device.counted, device.answered), (2, 2))
        model.training = True
        optimizer = Optimizer(model.own)
        script.changed(optimizer)
        boundaries.call_begins(model, True)
        boundaries.call_ends()
        boundaries.backward_begins()
        boundaries.backward_ends()
        boundaries.step_begins(optimizer)
        boundaries.step_ends(optimizer)
        self.assertEqual((device.counted, device.answered), (3, 2))

    def test_teachers(self):
        self.rows(
            {"O": "m"},
            "t.- ( ] m ( b O ) t.- ( m b O ) t.- ( m b O )",          # asked first: from the second time on no boundary
            "t. ( ] m ( b O ) t. ( m b O )",                          # a frozen backbone
            "m ( t.- b O ) m ( t.- b O )",                            # asked afterwards
            "t.- ( ] u.- ( ] m ( b O ) t.- ( u.- m b O )",
            "m- ( ] t- ( ] m ( b O ) m- ( t- m b O )",                # deep Q-learning
            "t.- ( ] m ( b t.- m b O ) t.- ( m b t.- m b O )",        # with accumulation
            "t.- ( ] m ( b O ) t.- ( m b O ) t.- ( t.- ) ( ) t.- ( ) m ( b O )",  # the teacher is evaluated
            "t.- ( ] m ( b O ) t.- ( m.- ) ( )",
            "t.- ( ] m ( b O ) t.- ( finish ]",
        )

    def test_two_optimizers_of_one_loss(self):
        self.rows({"E": "e", "D": "d"}, "e ( d b E D ) " * 3)
        self.rows({"A": "m0", "B": "m1"}, "m ( b A B ) " * 3)
        # One of them is rare. That shows once the other steps again, and what was missed is counted.
        self.rows(
            {"A": "m0", "B": "m1"},
            "m ( b A m b A 1 ) m ( b A ) m ( b A ) B ( ] m ( b A )",
            "m ( b A B ) m ( b A m b A 1 ) m ( b A ) m ( b A ) B ( ] m ( b A )",
            "m ( b A finish )",
            # It was only late to come into use.
            "m ( b A m b A 1 ) B ( ] m ( b A ) B ( ] m ( b A B )",
        )
        self.rows({"A": "m0", "B": "m1", "C": "m1"}, "m ( b A B m b A 1 B ) m ( b A B ) m ( b A B ) C ( ] m ( b A B )")

    def test_gans(self):
        owners = {"G": "g", "D": "d"}
        self.rows(
            owners,
            "d ( b g d b D d b G ) " * 3,
            "g- ( ] d ( d b D g d b G ) g- ( d d b D g d b G )",                 # fakes made without gradients
            "g ( d b G d d b D ) " * 3,                                          # the generator first
            "g ( d d b D g d d b D 1 ) g ( d d b D ) g ( d b G ] g ( d d b D )",  # Wasserstein: the generator is rare
            "d ( b g d b D d b G ) g- ( ] d 1 ( b g d b D d b G )",              # samples now and then
        )
        # Actor and critic: coupled, though the critic's loss does not show it.
        self.rows({"A": "a", "C": "c"}, "c ( b C ) a ( c b A ] c ( b C ) a ( c b A ]")
        # ... and a temperature, which is no model.
        self.rows(
            {"A": "a", "C": "c", "T": ""},
            "a- ( ] t- ( ] c ( b C c a b A ) b ( T ] a- ( t- c b C c a b A ) b ( T ]",
        )

    def test_models_that_have_nothing_to_do_with_each_other(self):
        self.rows({"M": "m", "N": "n"}, "m ( b M ) n ( b N ) " * 3, "M{ ( m b m b }M ) N{ ( n b }N ) " * 2)
        self.rows({"M": "m", "N": "n"}, "m ( b M ) +N n ( b N ) -M m. ( ] b ( ) n ( b N )")

    def test_optimizers_come_and_go(self):
        self.rows(
            {"O": "m", "P": "m"},
            "m ( b O ) +P m ( b P m b P 1 ) m ( b P )",            # the old one is not awaited
            "m ( b O ) -O +P m ( b P ) m ( b P )",
        )
        self.rows({"O": "m"}, "m ( b -O m b break ]", "m ( b O ) -O m ( ] b ( ) m ( b )")

    def test_optimizers_without_models(self):
        self.rows(
            {"O": ""},
            "b ( O ) b ( O )",
            "b ( b O ) b ( b O )",
            "m. ( ] m. ( ] b ( ) O ( ] m. ( b O ) m. ( b O )",     # style transfer: what is trained is the input
        )
        self.rows({"O": "m", "T": ""}, "m ( b O ) m.- ( ) b ( T ) b ( T )")  # a temperature is fitted afterwards

    def test_no_optimizer(self):
        self.rows(
            {},
            "m ( ] b ( ) m ( b ) m ( b )",                         # training by hand
            "m. ( ] b ( ) b ( ] b ( ] m. ( b ) b ( ]",             # saliency, class by class
            "b ( ) b ( )",
        )

    def test_gradients_after_training(self):
        self.rows(
            {"O": "m"},
            "m ( b O ) m. ( ] b ( ) m. ( b ) m. ( b ) m ( b O )",
            "m ( b O ) m. ( ] b ( ) b ( ] m. ( b ) b ( ]",
            "m. ( ] b ( ) O ( ] m. ( b O ) m. ( b O )",            # training in eval mode, after all
            "m ( b O ) m (" + " b m" * 8 + " b m 9 ] ( b ) m ( b ) O ( ] m ( b O )",  # in training mode, and training again
        )

    def test_what_goes_wrong(self):
        self.rows(
            {"O": "m"},
            "m! ( ] m ( b O )",
            "m ( b m! ] m ( b O )",
            "m ( b! ] m ( b O )",
            "m ( break ] m ( b O )",
            "m ( b break ] O ( )",
            "m ( b break ] break finish",
            "m.-! ( ] m.- ( )",
            "t.-! ( ] m ( b O ) finish",
            "m ( m m b O{ break ] m ( b O )",
            "O{ ( m! ] }O m ( b O )",
            "m ( finish ]",
        )
        self.rows({"G": "g", "D": "d"}, "g ( d b D g! ) g ( d b D g b G )", "g ( d b D finish )")


class Units(unittest.TestCase):
    def test_begin_that_raises(self):
        for error in (KeyboardInterrupt, MemoryError):
            world = World(O="m")
            world.make("O")
            world.device.fails = error
            with self.assertRaises(error):
                world.boundaries.call_begins(world.model("m"), True)
            self.assertFalse(world.device.held)
            for event in ("m", "b", "O"):
                world.happens(event)
            self.assertEqual(world.device.calls, ["(", ")"])

    def test_kinds(self):
        world = World(O="m")
        world.make("O")
        for event in "m b O m b O m.- m.- n.- n.- O".split():
            world.happens(event)
        train, again, evaluate, evaluate_again, other, other_again, step = world.device.kinds
        self.assertEqual((train, evaluate, other), (again, evaluate_again, other_again))
        self.assertEqual(len({train, evaluate, other, step}), 4)

    def test_nothing_is_kept_alive(self):
        world = World(O="m")
        world.make("O")
        for event in "t.- m b O t.- m. m b O t. b".split():
            world.happens(event)
        alive = [weakref.ref(thing) for thing in [*world.models.values(), *world.optimizers.values()]]
        world.models.clear()
        world.optimizers.clear()
        gc.collect()
        self.assertEqual([reference() for reference in alive], [None] * 3)
        self.assertFalse(world.script.has_optimizers())

    def test_threads_have_boundaries_of_their_own(self):
        world = World(O="m", P="n")
        world.make("O")
        world.make("P")
        other = Device()
        second = Boundaries(other, world.script)
        world.happens("m")
        second.call_begins(world.model("n"), True)
        second.call_ends()
        world.happens("b")
        world.happens("O")
        second.backward_begins()
        second.backward_ends()
        second.step_begins(world.optimizers["P"])
        second.step_ends(world.optimizers["P"])
        self.assertEqual((world.device.calls, other.calls), (["(", ")"], ["(", ")"]))

    def test_any_sequence(self):
        """Device asserts that begin and end (or leave) alternate, and that nothing negative is counted."""
        for seed in range(400):
            with self.subTest(seed=seed):
                self.play_at_random(random.Random(seed))

    def play_at_random(self, chance):
        world = World(O="m", P="m0 n", Q="g", R="")
        names = list(world.owners)
        models = [model + mode + failed for model in "mngt" for mode in ("", "", "-", ".", ".-") for failed in ("", "", "!")]
        models += ["b"] * 20 + ["b!"]
        work = 0  # what could have been an iteration
        for _ in range(300):
            name = chance.choice(names)
            if name not in world.optimizers:
                event = "+" + name if chance.random() < 0.3 else "b"
            else:
                event = chance.choice([name] * 40 + [name + "{"] * 4 + ["}" + name] * 4 + ["-" + name] + ["break"])
            if chance.random() < 0.6:
                event = chance.choice(models)
            if chance.random() < 0.01:
                world.device.fails = chance.choice([KeyboardInterrupt, MemoryError])
            try:
                world.happens(event)
            except (KeyboardInterrupt, MemoryError):
                self.assertFalse(world.device.held)
            work += 1
            self.assertLessEqual(world.device.counted, work)
            if event in ("break", "b!") or event.endswith("!"):
                self.assertFalse(world.device.held, event)
        world.happens("finish")
        self.assertFalse(world.device.held)
        before = list(world.device.calls)
        world.happens("finish")
        self.assertEqual(before, world.device.calls)
        self.assertLessEqual(world.device.counted, work)

    def test_shortcuts_change_nothing(self):
        """Scripts that mostly repeat themselves, with and without Note [The usual iteration]."""
        taken = 0
        for seed in range(300):
            with self.subTest(seed=seed):
                taken += self.play_both_ways(random.Random(seed))
        self.assertGreater(taken, 300 * 20)

    def play_both_ways(self, chance):
        """Returns how often the shortcut was noted or kept."""
        short, long = World(O="m", P="m0 n", Q="g"), World(O="m", P="m0 n", Q="g")
        long.boundaries._note_usual = lambda *_: None
        events = [model + mode + failed for model in "mngt" for mode in ("", "-", ".") for failed in ("", "", "!")]
        events += ["b", "b", "b!", "break", "O", "P", "Q", "O{", "}O", "O!", "-O", "+P", "-P", "+Q", "finish"]
        usual = chance.choice([["m", "b", "O"], ["m", "m", "b", "b", "O"], ["g", "b", "Q"], ["m", "O{", "m", "b", "}O"]])
        script, taken = ["+O", "+Q"], 0
        while len(script) < 300:
            script += usual if chance.random() < 0.7 else [chance.choice(events)]
        for event in script:
            name = event.strip("!{}-")
            if name.isupper() and name[0] != "+" and name not in short.optimizers:
                continue
            fails = chance.choice([KeyboardInterrupt, MemoryError]) if chance.random() < 0.01 else None
            outcomes = []
            for world in (short, long):
                world.device.fails = fails
                try:
                    world.happens(event)
                    outcomes.append(None)
                except (KeyboardInterrupt, MemoryError) as error:
                    outcomes.append(type(error))
                world.device.fails = None
            self.assertEqual(outcomes[0], outcomes[1], event)
            self.assertEqual(short.device.calls, long.device.calls, event)
            self.assertEqual(short.device.answered, long.device.answered, event)
            self.assertEqual(len(short.device.kinds), len(long.device.kinds), event)
            taken += short.boundaries._usual is not None
        return taken


class Threads(unittest.TestCase):
    """Two threads of one script."""

    def setUp(self):
        self.script = Script(lambda model: model.own)
        self.model, self.part = Model(), Model()
        self.optimizer = Optimizer(self.model.own + self.part.own)
        self.script.changed(self.optimizer)
        self.first, self.second = Device(), Device()
        self.trains, self.helps = Boundaries(self.first, self.script), Boundaries(self.second, self.script)

    def iterate(self):
        self.trains.call_begins(self.model, True)
        self.trains.call_ends()
        self.trains.backward_begins()
        self.trains.backward_ends()
        self.trains.step_begins(self.optimizer)
        self.trains.step_ends(self.optimizer)

    def test_a_thread_that_makes_no_steps_holds_nothing_after_its_calls(self):
        self.iterate()
        for _ in range(3):
            self.helps.call_begins(self.part, True)
            self.assertTrue(self.second.held)
            self.helps.call_ends()
            self.assertFalse(self.second.held)
        self.assertEqual(self.second.counted, 0)
        self.iterate()
        self.assertEqual(self.first.counted, 2)

    def test_one_that_held_before_that_was_known_lets_go_at_its_next_call(self):
        self.helps.call_begins(self.part, True)
        self.helps.call_ends()
        self.assertTrue(self.second.held)
        self.iterate()
        self.helps.call_begins(self.part, True)
        self.helps.call_ends()
        self.assertFalse(self.second.held)

    def test_a_part_of_anothers_call(self):
        self.trains.call_begins(self.model, True)
        self.helps.part_begins()
        self.helps.call_ends()
        self.assertEqual("".join(self.second.calls), "(]")
        self.helps.part_begins()
        self.helps.call_ends(failed=True)
        self.assertFalse(self.second.held)
        self.trains.call_ends()
        self.assertTrue(self.first.held)

    def test_a_signals_handler_raises_between_the_device_and_our_books(self):
        for name in ("end", "leave"):
            boundaries = Boundaries(self.first, Script(lambda model: model.own))
            boundaries.call_begins(self.model, False)
            original = getattr(self.first, name)
            for when in ("before", "after"):
                def broken(when=when):
                    if when == "after":
                        original()
                    raise KeyboardInterrupt

                setattr(self.first, name, broken)
                try:
                    boundaries.call_ends()
                except KeyboardInterrupt:
                    pass
                setattr(self.first, name, original)
                boundaries.broken_off()
                self.assertFalse(self.first.held)
                boundaries.call_begins(self.model, False)
                self.assertTrue(self.first.held)
            boundaries.broken_off()


if __name__ == "__main__":
    unittest.main()

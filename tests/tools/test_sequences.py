"""What a program asks for is learned from runs: what repeats, sizes in letters, and conditions with their limits."""

import random

import pytest

from every_byte.formula.expressions import Expression
from every_byte.ledger.events import Event
from every_byte.ledger.requests import Moment, Requests
from every_byte.ledger.trace import Trace
from tools.sequences.conditions import Condition
from tools.sequences.folding import folded
from tools.sequences.forms import Forms
from tools.sequences.learning import Program
from tools.sequences.sequence import NoForm, RequestSequence, told
from tools.sequences.steps import Free, Kind, Repeat, Request, steps_of, unfolded

SETTINGS = [
    {"b": b, "s": s, "d": d} for b, s, d in ((1, 131, 67), (3, 257, 101), (7, 59, 39), (2, 1031, 53), (5, 12, 7))
]


def sizes(text: str) -> list[int]:
    return [Expression(text).value(letters) for letters in SETTINGS]


@pytest.mark.parametrize(
    "text", ["2*b*s*d", "8*d**2", "512", "3*b*s", "4*b*up(s, 32)", "12*d**2 + 4*d", "2*b*s*d - 4*d", "4*b*s + 16"]
)
def test_a_size_is_found_from_its_values(text):
    found = Forms(SETTINGS).of(sizes(text))
    assert found is not None
    assert sizes(found) == sizes(text)


def test_what_is_no_size_in_letters_is_none():
    assert Forms(SETTINGS).of([3, 1, 4, 1, 5]) is None


def training(L: int, *, n: int = 4) -> list:
    """The trace of a model of L layers: weights, forward, a backward that goes the other way, and frees at the end."""
    events, number, alive = [], iter(range(10_000)), []

    def alloc(n_bytes: int, operation: str, phase: str) -> int:
        events.append(Event("alloc", n_bytes, next(number), operation, phase=phase))
        return events[-1].allocation

    def free(allocation: int) -> None:
        events.append(Event("free", allocation=allocation))

    for _ in range(L):
        alloc(4 * n * n, "aten::empty", "model")
    alive = [alloc(4 * n, "aten::mm", "forward") for _ in range(L)]
    gradients = []
    for kept in reversed(alive):
        gradients.append(alloc(4 * n * n, "aten::mm", "backward"))
        free(kept)
    moment = Moment("end", len(events), {"weights": range(L), "gradients": gradients})
    for gradient in gradients:
        free(gradient)
    return steps_of(Requests(Trace("simulated", "a gpu", events=events), (moment,)))


def test_layers_are_loops_whatever_their_number():
    three, nine = folded(training(4)), folded(training(9))
    assert [type(step).__name__ for step in three] == [type(step).__name__ for step in nine]
    assert sum(isinstance(step, Repeat) for step in nine) == 3
    assert list(unfolded(nine)) == training(9)


def test_a_sequence_says_what_other_runs_ask_for():
    sequence = RequestSequence.of(
        [({"L": L, "n": n}, training(L, n=n)) for L, n in ((5, 11), (7, 3), (4, 29), (9, 17))]
    )
    assert sequence.repeats == ("L", "L", "L")
    for L, n in ((1, 2), (2, 40), (200, 5)):
        assert sequence.at({"L": L, "n": n}) == told(training(L, n=n))
    assert sequence.at({"L": 3, "n": 5}) != told(training(4, n=5))


def test_runs_that_differ_in_more_than_sizes_make_no_sequence():
    runs = [({"L": 4, "n": 5}, training(4, n=5)), ({"L": 5, "n": 7}, training(5, n=7)[:-1])]
    with pytest.raises(NoForm, match="must differ in sizes and repeats alone"):
        RequestSequence.of(runs)


def refused_above(limit: int):
    """A program with a temporary where s is above a limit, and refused where a does not divide d."""

    def run(letters):
        events = [Event("alloc", 4 * letters["d"], 0, "aten::empty")]
        if letters["s"] > limit:
            events += [Event("alloc", 8 * letters["s"], 1, "aten::sort"), Event("free", allocation=1)]
        trace = Trace("simulated", "a gpu", events=events)
        if letters["d"] % letters["a"]:
            said = f"a must divide d: got a={letters['a']}, d={letters['d']}; nearest: 1."
            return steps_of(Requests(trace, (), said))
        return steps_of(Requests(trace, (Moment("", len(events), {"d": [0]}),)))

    draw = random.Random(1)
    return Program(run, lambda: {"s": draw.randrange(1, 500), "d": draw.randrange(1, 99), "a": draw.choice((1, 2, 3))},
                   ("d/a", "s"))  # fmt: skip


def test_conditions_have_exact_limits_and_a_refusal_its_numbers():
    program = refused_above(123)
    branches = program.learned(())
    assert len(branches) == 4
    rooms = {condition.room for branch in branches for condition in branch.conditions}
    assert rooms == {"d/a", "123 - (s)"}
    for letters in ({"s": 123, "d": 6, "a": 3}, {"s": 124, "d": 6, "a": 3}, {"s": 124, "d": 7, "a": 3}):
        run = program.at(letters)
        [branch] = [branch for branch in branches if all(condition(letters) for condition in branch.conditions)]
        assert branch.sequence.at(letters) == run.told
    assert run.told[-1][1].parts == ("a must divide d: got a=", ", d=", ".")
    assert run.told[-1][1].numbers == (3, 7)


def test_what_no_condition_tells_apart_is_not_known():
    program = refused_above(123)
    program._features = ()
    assert {branch.sequence for branch in program.learned(())} == {None}


def test_a_condition_and_its_opposite():
    divides = Condition("d/a")
    assert divides({"d": 6, "a": 3})
    assert not divides({"d": 7, "a": 3})
    assert divides.opposite({"d": 7, "a": 3})


def test_of_several_alive_a_free_names_the_newest_or_the_oldest():
    kind = Kind(512, "aten::empty")
    steps = [Request(kind), Request(kind), Request(kind), Free(kind, -1), Free(kind, 0)]
    assert [item[1] for item in told(steps) if item[0] == "free"] == [0, 2]

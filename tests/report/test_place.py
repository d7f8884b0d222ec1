"""Where in a run a position is: by hand-made steps, to the event."""

import pytest

from every_byte.ledger.events import Event
from every_byte.ledger.trace import Trace
from every_byte.report.place import Place, name_of, phase_name, step_at
from every_byte.report.steps import Step

STEPS = [Step(1, 2, 5, 0, 0, 0, 0), Step(2, 5, 9, 0, 0, 0, 0)]


@pytest.mark.parametrize(
    ("index", "expected"),
    [(0, (0, False)), (1, (0, False)), (2, (1, False)), (4, (1, False)), (5, (2, False)), (8, (2, False)),
     (9, (2, True)), (20, (2, True))],
)  # fmt: skip
def test_a_step_has_its_own_events_alone(index, expected):
    assert step_at(STEPS, index) == expected


def test_without_steps_there_is_no_name():
    assert step_at([], 3) == (0, False)
    assert (name_of(0, False), name_of(2, False), name_of(2, True)) == ("", "step 2", "after step 2")


def test_a_place_in_words():
    events = [Event("alloc", 8, i, "aten::mm", "", ["forward", "", "step"][i % 3], "", "head") for i in range(12)]
    trace = Trace("simulated", "a", events=events)
    assert str(Place.of(trace, STEPS, 4)) == "step 1, forward in head (mm)"
    assert Place.of(trace, STEPS, 12).when == "after step 2, optimizer"
    assert Place.of(trace, [], 2).when == "outside forward and backward"
    assert Place.of(trace, STEPS, 0).step_name == ""
    assert phase_name("zero_grad") == "zero_grad"

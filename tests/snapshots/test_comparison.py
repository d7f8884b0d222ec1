"""What differs is grouped by what made it and by sizes, and all of it adds up to the whole difference."""

from hypothesis import given
from hypothesis import strategies as st

from every_byte.snapshots.alignment import ENDED, REFUSED, SIZE
from every_byte.snapshots.comparison import Comparison, Difference
from every_byte.snapshots.comparison_text import Compared, comparison_text
from every_byte.snapshots.sequences import Request, Requests

SIZES = st.lists(st.integers(1, 4), max_size=40)
SAID = Compared("real.pickle", "a100-80gb", "every-byte 0, torch 0", "the program ended by itself")


def sequence(*sizes: int, **more) -> Requests:
    return Requests([Request(size, i, "train.py:3 main", f"op{size}") for i, size in enumerate(sizes)], **more)


def compared(ours: Requests, theirs: Requests, **more) -> Comparison:
    return Comparison(ours, theirs, {}, {}, **more)


def test_a_size_that_is_another():
    found = compared(sequence(1, 2, 3, 4, 5), sequence(1, 2, 30, 4, 5))
    assert found.parting.kind == SIZE
    assert found.differences == [Difference("op30", 3, 30, 1)]
    assert (found.n_same, found.agrees) == (4, False)


@given(SIZES, SIZES)
def test_differences_add_up_to_the_difference(ours, theirs):
    found = compared(sequence(*ours), sequence(*theirs))
    if found.agrees:
        assert theirs[: len(ours)] == ours
        return
    last = found.gaps[-1]
    end = last.simulated.stop + len(ours) - last.real.stop
    assert sum(one.n_bytes for one in found.differences) == sum(theirs[:end]) - sum(ours)


@given(SIZES)
def test_the_same_agrees(sizes):
    found = compared(sequence(*sizes), sequence(*sizes))
    assert found.agrees
    assert found.n_same == len(sizes)
    assert found.peaks[0] == found.peaks[1]


def test_a_simulation_that_ends_before():
    found = compared(sequence(1, 2, 3), sequence(1, 2))
    assert found.parting.kind == ENDED
    assert found.differences == [Difference("op3", 3, None, 1)]
    assert compared(sequence(1, 2, 3), sequence(1, 2), was_stopped=True).agrees


def test_a_request_that_failed():
    failed = Request(5000, 3, "train.py:9 main", "empty")
    real = sequence(1, 2, refused=failed, refused_bytes=5120)
    assert compared(real, sequence(1, 2, 4900)).agrees  # in whole blocks it is the same
    assert compared(real, sequence(1, 2, refused=failed, refused_bytes=5120)).agrees
    found = compared(real, sequence(1, 2, 700))
    assert found.parting.kind == REFUSED
    assert "The first difference is the request that failed" in comparison_text(found, SAID)


def test_settings_that_both_tell():
    found = Comparison(sequence(1), sequence(1), {"a": 1, "b": 2, "c": 3}, {"b": 2, "c": 4, "d": 5})
    assert found.settings == {"c": (3, 4)}
    assert "- set otherwise: c is 3 in the snapshot, and 4 in the simulation" in comparison_text(found, SAID)


def test_a_text_of_what_agrees_reports_nothing():
    said = comparison_text(compared(sequence(1, 2), sequence(1, 2)), SAID)
    assert "They agree to the byte: 2 requests" in said
    assert "report" not in said


def test_a_text_of_what_parts_names_it_on_both_sides():
    said = comparison_text(compared(sequence(1, 2, 3, 4), sequence(1, 2, 30, 4)), SAID)
    assert "  snapshot    3 bytes, train.py:3 main, op3\n  simulation  30 bytes" in said
    assert "\n> 3 " in said
    assert "In all the simulation requests +27 bytes." in said
    assert said.rstrip().endswith("or the smallest one that still differs.")

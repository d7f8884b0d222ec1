"""Two sequences are laid one over the other where most of them is the same; each difference behind that is found."""

import random

from hypothesis import given
from hypothesis import strategies as st

from every_byte.snapshots.alignment import (
    ENDED,
    FREED,
    SEGMENTS,
    SIZE,
    Gap,
    Parting,
    beginning,
    first_parting,
    gaps,
    prefix_lengths,
)
from every_byte.snapshots.sequences import Request, Requests

SIZES = st.lists(st.integers(1, 3), max_size=30)


def sequence(*sizes: int, frees: dict[int, list[int]] | None = None, **more) -> Requests:
    """Requests of these sizes; after some, others are freed, by their numbers."""
    requests = [Request(size, i, "a.py:1 f", "mm") for i, size in enumerate(sizes)]
    for after, freed in (frees or {}).items():
        requests[after].freed = freed
        requests[after].freed_sizes = [sizes[n] if n >= 0 else 7 for n in freed]
    return Requests(requests, **more)


@given(SIZES, SIZES)
def test_prefix_lengths_are_those_that_one_counts(pattern, values):
    def counted(start: int) -> int:
        pairs = zip(pattern, values[start:])
        return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(pattern), len(values) - start))

    assert prefix_lengths(pattern, values) == [counted(start) for start in range(len(values))]


def test_where_it_begins():
    whole = sequence(1, 2, 3, 4, 2, 3, 5)
    assert beginning(sequence(2, 3, 5, found_bytes=512), whole) == 4
    assert beginning(sequence(2, 3, found_bytes=512), whole) == 1
    assert beginning(sequence(2, 3), whole) == 0  # with nothing before it
    assert beginning(sequence(found_bytes=1), whole) == 0


def test_of_several_beginnings_that_with_the_same_frees():
    whole = sequence(2, 3, 4, 2, 3, 4, frees={4: [3]})
    assert beginning(sequence(2, 3, 4, frees={1: [0]}, found_bytes=512), whole) == 3


def test_frees_in_a_row_have_no_order():
    assert first_parting(sequence(1, 2, 3, 4, frees={2: [0, 1]}), sequence(1, 2, 3, 4, frees={2: [1, 0]}), 0) is None


def test_what_is_older_than_the_beginning_is_known_by_its_size():
    whole = sequence(7, 8, 1, 2, 3, frees={3: [0]})
    assert first_parting(sequence(1, 2, 3, frees={1: [-1]}), whole, 2) is None
    whole = sequence(9, 8, 1, 2, 3, frees={3: [0]})
    assert first_parting(sequence(1, 2, 3, frees={1: [-1]}), whole, 2) == Parting(FREED, 1, 3)


def test_kinds_of_partings():
    one = sequence(1, 2, 3)
    assert first_parting(one, sequence(1, 2, 4), 0) == Parting(SIZE, 2, 2)
    assert first_parting(one, sequence(1, 2, 3, frees={1: [0]}), 0) == Parting(FREED, 1, 1)
    assert first_parting(one, sequence(1, 2, 3, frees={2: [0]}), 0) is None  # it had ended by then
    bought = sequence(1, 2, 3)
    bought.requests[1].segments = (("segment_alloc", 512),)
    assert first_parting(one, bought, 0) == Parting(SEGMENTS, 1, 1)


def test_gaps():
    one, other = sequence(1, 2, 3, 4, 5, 6, 7, 8, 9), sequence(1, 2, 3, 40, 5, 6, 7, 8, 9)
    assert gaps(one, other, Parting(SIZE, 3, 3)) == [Gap(range(3, 4), range(3, 4))]
    other = sequence(1, 2, 20, 21, 3, 4, 5, 6, 7, 8, 9)
    assert gaps(one, other, Parting(SIZE, 2, 2)) == [Gap(range(2, 2), range(2, 4))]
    assert gaps(sequence(1, 2, 3), sequence(1), Parting(ENDED, 1, 1)) == [Gap(range(1, 3), range(1, 1))]


@given(SIZES, SIZES)
def test_gaps_leave_what_is_the_same(ours, theirs):
    found = gaps(sequence(*ours), sequence(*theirs), Parting(SIZE, 0, 0))
    in_gaps = {i for gap in found for i in gap.real}, {i for gap in found for i in gap.simulated}
    kept = [size for i, size in enumerate(ours) if i not in in_gaps[0]]
    kept_there = [size for i, size in enumerate(theirs) if i not in in_gaps[1]]
    assert kept == kept_there[: len(kept)]


def test_a_long_gap_is_found_without_end():
    drawn = random.Random(3)
    ours = [drawn.randrange(10**6) for _ in range(30_000)]
    theirs = ours[:100] + [drawn.randrange(10**6, 10**7) for _ in range(9000)] + ours[20_000:]
    assert gaps(sequence(*ours), sequence(*theirs), Parting(SIZE, 100, 100)) == [
        Gap(range(100, 20_000), range(100, 9100))
    ]

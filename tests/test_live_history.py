"""A memory history is read as allocations and frees: numbers, lives, blocks, and sums as the allocator counts them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from utils.events import Event
from utils.live_history import Counters, History
from utils.units import MiB

SEGMENT = {"address": 0, "total_size": 2 * MiB, "blocks": [{"address": 0, "size": 2 * MiB, "state": "inactive"}]}


def entry(action, address, n_bytes, **more):
    return {"action": action, "addr": address, "size": n_bytes, "stream": 0, **more}


def test_an_address_used_again_is_another_allocation():
    history = History([SEGMENT])
    events = [entry("alloc", 0, 100), entry("free_requested", 0, 100), entry("free_completed", 0, 100)]
    history.read([*events, entry("alloc", 0, 200)])
    history.read([*events, entry("alloc", 0, 200), entry("alloc", 512, 50)])
    assert [(e.action, e.n_bytes, e.allocation, e.block_bytes) for e in history.events] == [
        ("alloc", 100, 0, 512),
        ("free", 100, 0, 512),
        ("alloc", 200, 1, 512),
        ("alloc", 50, 2, 512),
    ]
    assert [history.number_at(0, tick) for tick in range(5)] == [None, 0, 0, 1, 1]
    assert history.number_at(99, 4) is None
    assert [event.allocated_bytes for event in history.events] == [512, 0, 512, 1024]


def test_a_block_that_another_stream_uses_is_free_for_the_program_and_not_for_the_allocator():
    history = History([SEGMENT])
    history.read([entry("alloc", 0, 100), entry("free_requested", 0, 100), entry("alloc", 512, 100)])
    assert [event.allocated_bytes for event in history.events] == [512, 0, 512]
    assert history.whole


def test_what_was_in_use_at_first_comes_first():
    used = {"address": 512, "size": 512, "state": "active_allocated", "requested_size": 300}
    rest = {"address": 1024, "size": 2 * MiB - 1024, "state": "inactive"}
    pending = {"address": 0, "size": 512, "state": "active_pending_free", "requested_size": 10}
    history = History([SEGMENT | {"blocks": [pending, used, rest]}])
    history.read([entry("free_completed", 0, 10), entry("free_requested", 512, 300), entry("free_completed", 512, 300)])
    assert [(e.action, e.n_bytes, e.operation) for e in history.events] == [("alloc", 300, ""), ("free", 300, "")]
    assert (history.n_before, history.n_ticks, history.whole) == (1, 1, True)
    assert isinstance(history.others[0][0][1], Event)


@pytest.mark.parametrize(
    ("counters", "said"),
    [
        (Counters(512, 101, 1, 0, 0), r"after 1 allocations and frees these say 101 bytes .*has 100 bytes"),
        (Counters(512, 100, 2, 0, 0), "after 2 allocations and frees .*has 1 of them"),
    ],
)
def test_a_history_that_does_not_agree_with_the_counters_is_an_error(counters, said):
    history = History([SEGMENT])
    history.read([entry("alloc", 0, 100)])
    history.must_agree([Counters(0, 0, 0, 0, 0), Counters(512, 100, 1, 0, 0)])
    with pytest.raises(RuntimeError, match=said):
        history.must_agree([Counters(0, 0, 0, 0, 0), Counters(512, 100, 1, 0, 0), counters])


def test_of_other_blocks_than_these_none_is_known():
    """As where `roundup_power2_divisions` rounds otherwise."""
    history = History([SEGMENT])
    history.read([entry("alloc", 0, 600)])
    history.must_agree([Counters(1024, 600, 1, 0, 0)])
    assert history.whole
    history.read([entry("alloc", 0, 600), entry("alloc", 1024, 1100)])
    history.must_agree([Counters(1024, 600, 1, 0, 0), Counters(3072, 1700, 2, 0, 0)])
    assert not history.whole


def test_a_free_of_what_was_never_allocated_is_an_error():
    with pytest.raises(RuntimeError, match="must hold the allocation of all that is freed: it has none at 0x200"):
        History([SEGMENT]).read([entry("free_requested", 512, 100)])


@given(st.lists(st.integers(1, 5000), max_size=30), st.data())
def test_sums_are_those_of_what_is_live(sizes, data):
    history, entries, live, address = History([]), [], {}, 0
    for n_bytes in sizes:
        entries += [entry("segment_alloc", address, 2 * MiB), entry("alloc", address, n_bytes)]
        live[address] = n_bytes
        address += 2 * MiB
        if data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(sorted(live)))
            entries += [entry("free_requested", gone, live[gone]), entry("free_completed", gone, live.pop(gone))]
    history.read(entries)
    assert not sizes or history.events[-1].requested_bytes == sum(live.values())
    assert history.whole

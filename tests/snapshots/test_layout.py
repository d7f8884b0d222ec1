"""Free pieces of segments: by blocks at the end, by events before it, with holes in expandable segments."""

import pytest
from recorded_snapshots import PROGRAM_OF, Making, told

from every_byte.snapshots.layout import pools_of, reserved, room_at, room_at_end


@pytest.mark.parametrize("name", PROGRAM_OF)
def test_at_the_end_events_and_blocks_say_the_same(name):
    it = told(name)
    by_events, by_blocks = room_at(it.history, len(it.history)), room_at_end(it.history.segments)
    assert by_events.pieces == by_blocks.pieces
    assert by_events.reserved_bytes == by_blocks.reserved_bytes
    assert by_events.allocated_bytes == by_blocks.allocated_bytes


@pytest.mark.parametrize("name", PROGRAM_OF)
def test_what_is_free_and_what_is_not_is_all_that_is_reserved(name):
    it = told(name)
    for position in range(0, len(it.history) + 1, 5):
        room = room_at(it.history, position)
        assert room.free_bytes + room.allocated_bytes + room.pending_bytes == room.reserved_bytes
        assert room.allocated_bytes == it.totals[position]


def test_reserved_is_what_the_allocator_counted():
    """By hand: two small segments for weights, one of 20 MiB for the workspace, and so on to 32 MiB."""
    assert max(told("train").reserved) == 33554432
    assert told("train").reserved[0] == 0
    assert reserved(told("cut").history)[0] == 33554432  # all of it was there before


def test_pieces_end_where_segments_do():
    made = Making()
    made.segment(0, 4096, (1024, 1000), (3072, 0))
    made.segment(4096, 2048, (2048, 0))
    history = made.history()
    assert room_at(history, 0).pieces == (3072, 2048)


def test_an_expandable_segment_that_lost_pages():
    made = Making()
    made.event("segment_map", 0, 4096)
    made.event("segment_map", 4096, 4096)
    made.alloc(0, 512)
    made.event("segment_unmap", 2048, 2048)
    made.segment(0, 2048, (512, 512), (1536, 0), is_expandable=True)
    made.segment(4096, 4096, (4096, 0), is_expandable=True)
    history = made.history()
    assert reserved(history) == [0, 4096, 8192, 8192, 6144]
    assert room_at(history, 3).pieces == (7680,)
    assert room_at(history, 4).pieces == (4096, 1536)
    assert room_at(history, 4).fragmentation == pytest.approx(1536 / 5632)


def test_what_waits_for_a_stream():
    made = Making()
    made.event("segment_alloc", 0, 2048)
    made.alloc(0, 512)
    made.event("free_requested", 0, 512)
    made.segment(0, 2048, (512, 0), (1536, 0))
    made.segments[0]["blocks"][0]["state"] = "active_pending_free"
    room = room_at(made.history(), 3)
    assert (room.pending_bytes, room.pieces, room.allocated_bytes) == (512, (1536,), 0)
    assert room_at_end(made.segments) == room


def test_pools():
    made = Making()
    for pool, kind in (((0, 0), "small"), ((0, 0), "large"), ((0, 3), "large"), ((0, 0), "large")):
        made.segment(0, 512, (512, 0), segment_pool_id=pool, segment_type=kind)
    assert {key: len(those) for key, those in pools_of(made.segments).items()} == {
        ((0, 0), "large", 0, False): 2,
        ((0, 0), "small", 0, False): 1,
        ((0, 3), "large", 0, False): 1,
    }

"""A snapshot's drawings: what is drawn over time adds up to what is allocated, and pieces to their segments."""

import re

import pytest
from recorded_snapshots import PROGRAM_OF, Making, told

from every_byte.snapshots.drawings import HEIGHT, MOST_SEGMENTS, WIDTH, OverTime, segments_drawn


@pytest.mark.parametrize("name", PROGRAM_OF)
@pytest.mark.parametrize("most", [1, 40, 600])
def test_columns_add_up_to_what_is_allocated(name, most, monkeypatch):
    monkeypatch.setattr("every_byte.snapshots.drawings.MOST_COLUMNS", most)
    it = told(name)
    found = OverTime(it)
    assert len(found.positions) == min(most, len(it.totals))
    assert [sum(sizes) for sizes in zip(*found.columns.values())] == [it.totals[p] for p in found.positions]
    assert found.reserved == [it.reserved[p] for p in found.positions]
    assert found.positions[found.peak] == it.peak_position
    at_peak = {name: sizes[found.peak] for name, sizes in found.columns.items() if sizes[found.peak]}
    assert at_peak == {group.name: group.block_bytes for group in it.by_category(it.at_peak)}


def test_what_is_reserved_at_most_reaches_the_top_and_the_peak_stands_upright():
    it = told("train")
    found = OverTime(it)
    page = found.drawn(it)
    dashed = [float(y) for y in re.findall(r"[\d.]+,([\d.]+)", re.search('<polyline points="([^"]*)"', page).group(1))]
    assert min(dashed) == 0
    assert max(dashed) <= HEIGHT
    x = WIDTH * (found.peak + 0.5) / len(found.positions)
    assert f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HEIGHT}"></line>' in page
    assert page.count("<polygon") == len(found.columns) == page.count("<li>")
    assert "eb-failed" not in page


def test_a_request_that_failed_is_marked():
    it = told("no_room")
    assert OverTime(it).drawn(it).count('class="eb-failed"') == len(it.out_of_memory) == 1


def test_pieces_stand_one_behind_the_other_at_one_scale():
    made = Making()
    made.segment(0, 8192, (4096, 4096), (2048, 0), (2048, 2048))
    made.segment(2**20, 2048, (2047, 0), (1, 1))
    segments = made.snapshot()["segments"]
    segments[0]["blocks"][2]["state"] = "active_pending_free"
    page = segments_drawn(segments)
    pieces = re.findall(r'<rect x="([\d.]+)" width="([\d.]+)" y="0" height="1" class="([\w-]+)"', page)
    assert pieces == [
        ("0.0", "500.0", "eb-taken"), ("500.0", "250.0", "eb-lies-free"), ("750.0", "250.0", "eb-waiting"),
        ("0.0", "250.0", "eb-lies-free"),
    ]  # fmt: skip
    assert "the largest first, 8 KiB a line" in page


def test_of_many_segments_the_largest_are_drawn():
    made = Making()
    for n in range(MOST_SEGMENTS + 2):
        made.segment(2**21 * n, 2**21, (2**21, 0))
    page = segments_drawn(made.snapshot()["segments"])
    assert page.count("<svg") == MOST_SEGMENTS
    assert "2 smaller ones are left out." in page


def test_a_segment_of_nothing_is_drawn():
    assert "<svg" in segments_drawn([{"total_size": 0, "blocks": [{"size": 0, "state": "inactive"}]}])

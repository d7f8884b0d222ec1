"""Segments with their owners: colours, sizes, addresses."""

import pytest

from every_byte.figures.segments import owners_by_address, segments
from every_byte.palette import assign
from every_byte.units import MiB
from utils import Ledger


def test_segments_have_their_owners_colours(step):
    trace, snapshot = step
    figure = segments("Segments", snapshot, trace, "step 1 zero_grad")
    drawn = list(figure.axes[0].patches)
    by_owner = {}
    for patch in drawn:
        by_owner[patch.get_label()] = by_owner.get(patch.get_label(), 0) + patch.get_width() * MiB
    free_bytes = by_owner.pop("free")
    groups = {
        group.key[0]: group.n_bytes + group.slack_bytes for group in Ledger.at(trace, "step 1 zero_grad").by("category")
    }
    assert by_owner == groups
    assert free_bytes + sum(groups.values()) == sum(segment["total_size"] for segment in snapshot)
    colours = assign(groups)
    assert all(
        (patch.get_hatch() or "") == 3 * colours[patch.get_label()].hatch
        for patch in drawn
        if patch.get_label() != "free"
    )


def test_owners_lie_where_the_snapshot_has_blocks(step):
    trace, snapshot = step
    used = {b["address"]: b["requested_size"] for s in snapshot for b in s["blocks"] if b["state"] != "inactive"}
    owners = owners_by_address(trace, "step 1 zero_grad")
    assert {address: row.n_bytes for address, row in owners.items()} == used


def test_no_segments(step):
    trace, _ = step
    with pytest.raises(ValueError, match="snapshot must hold a segment: got an empty one"):
        segments("", [], trace, 0)

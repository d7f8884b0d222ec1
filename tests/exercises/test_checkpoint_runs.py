"""Runs of chapter 5's exercises count FLOPs, and refuse regions whose FLOPs they cannot count."""

import re

import pytest

from utils.exercises.checkpoint_runs import fit


@pytest.mark.parametrize(
    ("regions", "k", "got"),
    [
        ("k segments", 4, "regions='k segments', k=4, regions of up to 3 blocks"),
        ("sqrt(L) segments", None, "regions='sqrt(L) segments'"),
    ],
)
def test_regions_of_several_blocks_have_no_count_of_flops(regions, k, got):
    said = f"each region must be within one block, to count its FLOPs: got {got}; try 'every k-th block'."
    with pytest.raises(ValueError, match=re.escape(said)):
        fit(12, 2, regions, k)


@pytest.mark.nightly
def test_segments_of_one_block_are_every_block(monkeypatch):
    monkeypatch.setattr("utils.exercises.checkpoint_runs.trains", lambda *args, **how: True)
    one, other = fit(1, 1, "k segments", 12), fit(1, 1, "every block")
    assert one.more_flops == other.more_flops > 0
    assert fit(1, 1, "every k-th block", 3).more_flops == other.more_flops / 3

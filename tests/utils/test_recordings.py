"""The recordings as a chapter opens them."""

import pytest

from utils.recordings import recorded


def test_a_recording():
    assert [mark["allocated"] for mark in recorded("two_by_two_matmul")["marks"]][0] == 1024
    assert recorded("out_of_memory")["device_name"] == "NVIDIA A100-SXM4-80GB"


def test_what_was_not_recorded():
    with pytest.raises(ValueError, match=r"got 'x' on 'h100'; no x\.h100\.json\.gz there"):
        recorded("x", "h100")

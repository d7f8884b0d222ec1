"""A snapshot opened from Python: the text of `every-byte read`, and its figures."""

import pytest
from recorded_snapshots import FOLDER

from every_byte.account import read_snapshot
from every_byte.snapshots.text import text_of


def test_it_prints_as_the_command_does():
    told = read_snapshot(FOLDER / "leak.a100.pickle")
    assert repr(told) == text_of(told)
    assert repr(told).startswith("leak.a100.pickle: device 0, ")
    assert sum(leak.bytes_a_step for leak in told.leaks) == 393_728


def test_what_is_none_is_refused(tmp_path):
    (tmp_path / "other.pickle").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(ValueError, match="is no snapshot that can be read"):
        read_snapshot(str(tmp_path / "other.pickle"))
    with pytest.raises(OSError, match="must be a file"):
        read_snapshot(tmp_path / "none.pickle")
    with pytest.raises(ValueError, match="the device must be one"):
        read_snapshot(FOLDER / "leak.a100.pickle", 3)

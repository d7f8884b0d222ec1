"""`every-byte` as a reader types it: what it prints, on either stream, and what it refuses."""

import pytest

from utils.experiments.commands import said_by
from utils.recordings import SNAPSHOT_PROGRAMS, SNAPSHOTS


@pytest.mark.long
def test_it_says_what_the_command_prints_with_paths_of_the_book():
    said = said_by("read", SNAPSHOTS / "no_room.a100.pickle")
    assert said.startswith("no_room.a100.pickle: device 0, ")


@pytest.mark.nightly
def test_what_goes_to_the_other_stream_is_there_too():
    said = said_by("diff", SNAPSHOTS / "train.a100.pickle", SNAPSHOT_PROGRAMS / "train.py")
    assert "They agree to the byte" in said


@pytest.mark.nightly
def test_what_the_command_refuses_is_an_error_with_its_words():
    with pytest.raises(ValueError, match="must be a file"):
        said_by("read", "none.pickle")

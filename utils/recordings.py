"""Opens the recordings in tests/reference: what the CUDA build of PyTorch did, event by event."""

import gzip
import json
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parent.parent / "tests" / "reference" / "2.13.0"
SNAPSHOTS = RECORDINGS / "snapshots"
SNAPSHOT_PROGRAMS = RECORDINGS.parent / "snapshot_programs"
"""What the CUDA build's `_dump_snapshot()` wrote, and the programs that it was written of."""


def recorded(case: str, card: str = "a100") -> dict[str, Any]:
    """What the CUDA build of PyTorch did in a case of tests/reference, whose README says how it was recorded.

    Raises: ValueError for a case that was not recorded.
    """
    path = RECORDINGS / f"{case}.{card}.json.gz"
    if not path.is_file():
        found = f"got {case!r} on {card!r}; no {path.name} there"
        raise ValueError(f"case must be a recording in tests/reference, whose *cases.py have their names: {found}.")
    recording: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return recording

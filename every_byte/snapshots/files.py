"""Opens the file of a snapshot, without executing anything in it."""

from pathlib import Path
from typing import Any

from every_byte.ledger.plain_pickles import MOST_BYTES, NotPlain, TooLarge, load
from every_byte.units import MiB

from .schema import NotASnapshot, TooMany, check

MOST_MIB = MOST_BYTES // MiB


def opened(path: Path, most_mib: int) -> dict[str, Any]:
    """The snapshot in a file, opened without executing anything in it, and checked.

    Raises: ValueError for a file that is none, or larger than allowed; OSError for one that cannot be read.
    """
    if path.is_dir():
        raise IsADirectoryError(
            f"the snapshot must be a file: got {str(path)!r}, a folder; try {path}/snapshot.pickle."
        )
    if not path.exists():
        raise FileNotFoundError(
            f"the snapshot must be a file: got {str(path)!r}, which is none here; "
            "write one with torch.cuda.memory._dump_snapshot(path)."
        )
    most_bytes = most_mib * MiB
    try:
        snapshot: dict[str, Any] = load(path, most_bytes)
        check(snapshot, most_bytes)
    except (TooLarge, TooMany) as error:
        raise ValueError(f"{error} Allow more MiB: --most-mib {4 * most_mib or MOST_MIB}.") from None
    except (NotPlain, NotASnapshot) as error:
        raise ValueError(f"{str(path)!r} is no snapshot that can be read: {error}") from None
    except OSError as error:
        raise OSError(f"the snapshot must be a file that you may read: got {str(path)!r}, {error.strerror}.") from None
    return snapshot

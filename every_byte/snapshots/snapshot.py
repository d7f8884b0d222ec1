"""Opens a snapshot from Python: what `every-byte read` prints, as an object with its figures."""

from dataclasses import dataclass
from pathlib import Path

from .files import MOST_MIB, opened
from .summary import Summary, summary_of
from .text import text_of


@dataclass(repr=False)
class Snapshot(Summary):
    """One device of a snapshot, which prints as `every-byte read` does."""

    def __repr__(self) -> str:
        return text_of(self)


def read_snapshot(path: str | Path, device: int | None = None, *, most_mib: int = MOST_MIB) -> Snapshot:
    """What a snapshot tells that `torch.cuda.memory._dump_snapshot()` wrote; printed, it is `every-byte read`'s text.

    The file is opened without executing anything in it. Without `device`, that of the longest history is meant. A file
    that takes more than `most_mib` MiB of memory to open is refused.

    Unit:   bytes.
    Raises: ValueError for a file that is no snapshot, is too large, or has no such device; OSError for none to read.
    Example: print(read_snapshot("snapshot.pickle"))
    """
    summary = summary_of(opened(Path(path), most_mib), Path(path).name, device)
    return Snapshot(summary.name, summary.history, summary.settings, summary.events_by_device)

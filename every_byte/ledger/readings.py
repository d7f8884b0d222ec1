"""What a GPU's memory held after each phase of a run, and what that consisted of."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace

from every_byte.gpu.protocol import GPU
from every_byte.ledger.events import Event
from every_byte.palette import Category
from every_byte.tables import ShownAsTable, Table

from .attribution import NEVER
from .events import NO_ALLOCATION
from .trace import Trace

_STATS = tuple(
    f"{kind}_bytes.all.{reading}"
    for kind, reading in (
        ("allocated", "current"),
        ("allocated", "peak"),
        ("requested", "current"),
        ("reserved", "current"),
    )
)
TO_DEVICE = "model to device"
TEMPORARIES = Category.TEMPORARIES
_NAMES = {"inputs": "input", "outputs": "loss"}
"""What a loop of training in phases has one tensor of."""


@dataclass(frozen=True)
class Reading:
    """A GPU's memory at the end of one phase.

    Counts: `allocated_bytes`, `change_bytes` since the phase before and `peak_bytes`, the most there was during this
            phase: of whole blocks. `requested_bytes`: what was asked for. `reserved_bytes`: of segments. `parts`: what
            the allocated bytes consist of, by category, where that is known.
    Unit:   bytes.
    """

    iteration: int
    phase: str
    allocated_bytes: int
    change_bytes: int
    peak_bytes: int
    requested_bytes: int
    reserved_bytes: int
    parts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Readings(ShownAsTable):
    """All readings of a run, oldest first: `run[0, "model to device"]`, then `run[1, "forward"]` and so on.

    `counted` is what the number counts: "iteration" or "step".
    """

    title: str
    rows: tuple[Reading, ...]
    counted: str = "iteration"

    def __getitem__(self, key: tuple[int, str]) -> Reading:
        for row in self.rows:
            if (row.iteration, row.phase) == key:
                return row
        known = ", ".join(str((row.iteration, row.phase)) for row in self.rows)
        raise KeyError(f"a reading is named by {self.counted} and phase: got {key!r}, has {known}.")

    def __iter__(self) -> Iterator[Reading]:
        return iter(self.rows)

    @property
    def figures(self) -> dict[str, int]:
        """The allocated bytes after each phase, by its name."""
        return {_mark(self.counted, row.iteration, row.phase): row.allocated_bytes for row in self.rows}

    def with_peaks(self, iteration: int) -> dict[str, int]:
        """The allocated bytes after each phase, by its name, and the peaks within the phases of one iteration."""
        peaks = {f"peak in {_mark(self.counted, r.iteration, r.phase)}": r.peak_bytes for r in self.of(iteration)}
        return self.figures | peaks

    def of(self, iteration: int) -> "Readings":
        """The readings of one iteration."""
        rows = tuple(row for row in self.rows if row.iteration == iteration)
        return Readings(f"{self.title}, {self.counted} {iteration}", rows, self.counted)

    def _table(self) -> Table:
        rows = [
            [str(r.iteration or ""), r.phase, f"{r.allocated_bytes:,d}", f"{r.change_bytes:+,d}", f"{r.peak_bytes:,d}"]
            for r in self.rows
        ]
        return Table(self.title, [self.counted, "phase", "allocated bytes", "change", "peak within"], rows, numbers=3)


def _mark(counted: str, iteration: int, phase: str) -> str:
    return f"{counted} {iteration} {phase}" if iteration else phase


class Log:
    """Takes the readings of one run, and labels the trace of its GPU, if there is one, as it goes.

    `at_mark` is called with the name of each mark as soon as it is set.
    """

    def __init__(self, gpu: GPU, counted: str = "iteration", at_mark: Callable[[str], object] | None = None) -> None:
        self._gpu, self._counted, self._at_mark = gpu, counted, at_mark
        self._trace: Trace | None = getattr(gpu, "trace", None)
        self._rows: list[Reading] = []

    def labelled(self, label: str) -> AbstractContextManager[None]:
        """Whatever is allocated in this block of code is marked as made in it."""
        return self._trace.in_phase(label) if self._trace is not None else nullcontext()

    @contextmanager
    def phase(self, iteration: int, name: str, micro: str = "") -> Iterator[None]:
        """A phase that this block of code is, with a mark and a reading at its end; `micro` goes before its name."""
        self._gpu.reset_peak_memory_stats()
        with self.labelled(name):
            yield
        stats, before_bytes = self._gpu.memory_stats(), self._rows[-1].allocated_bytes if self._rows else 0
        current, peak, requested, reserved = (stats[key] for key in _STATS)
        row = Reading(iteration, micro + name, current, current - before_bytes, peak, requested, reserved)
        self._rows.append(row)
        mark = _mark(self._counted, iteration, row.phase)
        if self._trace is not None:
            self._trace.mark(mark)
        if self._at_mark is not None:
            self._at_mark(mark)

    def readings(self, title: str, *, with_parts: bool = True) -> Readings:
        """The readings so far; with their parts, if the GPU has a trace."""
        rows = self._rows
        if with_parts and self._trace is not None:
            parts = parts_at_marks(self._trace)[-len(rows) :]
            rows = [replace(row, parts=consists_of) for row, consists_of in zip(rows, parts, strict=True)]
        return Readings(title, tuple(rows), self._counted)


def categories(trace: Trace) -> dict[int, str]:
    """What each allocation of a trace is, by its number: what the ledger says of it when the phase ends that made it.

    What is gone by then is a temporary. Nobody looks around for it: what was observed while the program ran is enough.
    """
    attribution = trace.attribution(look=False)
    ends = [position for position, event in enumerate(trace) if event.action == "mark"] + [len(trace)]
    found: dict[int, str] = {}
    for number, position in attribution.made_at.items():
        end = ends[bisect_right(ends, position)]
        is_gone = attribution.freed_at.get(number, NEVER) < end
        category = TEMPORARIES if is_gone else attribution.category(number, end)
        found[number] = _NAMES.get(category, category)
    return found


def parts_at_marks(trace: Trace) -> list[dict[str, int]]:
    """For each mark of a trace, the allocated bytes at that moment by category, in the order in which they came up.

    Counts: not what was there when the trace began.
    Unit:   bytes, of whole blocks.
    """
    category = categories(trace)
    present: dict[str, int] = {}
    result = []
    for event in trace:
        if event.action == "mark":
            result.append({name: n_bytes for name, n_bytes in present.items() if n_bytes})
        elif event.action in ("alloc", "free") and not _was_found(trace, event):
            name = category.get(event.allocation, Category.UNATTRIBUTED)
            sign = 1 if event.action == "alloc" else -1
            present[name] = present.get(name, 0) + sign * event.block_bytes
    return result


def _was_found(trace: Trace, event: Event) -> bool:
    return NO_ALLOCATION < event.allocation < trace.n_found

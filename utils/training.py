"""A training step in named phases, and what a GPU's memory holds after each of them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import nn

from .comparison import html_table, text_table
from .layers import check_positive
from .trace import Trace

TO_DEVICE = "model to device"
PHASES = ("forward", "backward", "step", "zero_grad")
TEMPORARIES = "temporaries"
_MADE_IN = {
    TO_DEVICE: "parameters",
    "input": "input",
    "forward": "activations",
    "loss": "loss",
    "backward": "gradients",
    "step": "optimizer state",
}


@dataclass(frozen=True)
class Reading:
    """A GPU's memory at the end of one phase.

    Counts: `change_bytes` since the phase before; `peak_bytes`, the most there was during this phase; `parts`, what the
            allocated bytes consist of, by category, on a simulated GPU (empty on a live one).
    Unit:   bytes, of whole blocks.
    """

    iteration: int
    phase: str
    allocated_bytes: int
    change_bytes: int
    peak_bytes: int
    parts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Readings:
    """All readings of a run, oldest first: `run[0, "model to device"]`, then `run[1, "forward"]` and so on."""

    title: str
    rows: tuple[Reading, ...]

    def __getitem__(self, key: tuple[int, str]) -> Reading:
        for row in self.rows:
            if (row.iteration, row.phase) == key:
                return row
        known = ", ".join(str((row.iteration, row.phase)) for row in self.rows)
        raise KeyError(f"a reading is named by iteration and phase: got {key!r}, has {known}.")

    def __iter__(self) -> Iterator[Reading]:
        return iter(self.rows)

    @property
    def figures(self) -> dict[str, int]:
        """The allocated bytes after each phase, by its name."""
        return {_mark(row.iteration, row.phase): row.allocated_bytes for row in self.rows}

    def of(self, iteration: int) -> "Readings":
        """The readings of one iteration."""
        return Readings(f"{self.title}, iteration {iteration}", tuple(r for r in self.rows if r.iteration == iteration))

    def _table(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [str(r.iteration or ""), r.phase, f"{r.allocated_bytes:,d}", f"{r.change_bytes:+,d}", f"{r.peak_bytes:,d}"]
            for r in self.rows
        ]
        return ["iteration", "phase", "allocated bytes", "change", "peak within"], rows

    def __repr__(self) -> str:
        return text_table(self.title, *self._table(), numbers=3)

    def _repr_html_(self) -> str:
        return html_table(self.title, *self._table(), numbers=3)


def train_in_phases(
    gpu,
    make_model: Callable[[], nn.Module],
    make_batch: Callable[[], torch.Tensor],
    make_optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer] = torch.optim.Adam,
    *,
    n_iterations: int = 3,
) -> Readings:
    """Train for a few iterations on an open GPU, `loss = model(batch).sum()`, and read its memory after each phase.

    The loss keeps its name until the next forward replaces it, and gradients are set to None, as in most scripts. On a
    simulated GPU each phase ends with a mark in the trace, "iteration 2 forward".

    Counts: whole blocks of the caching allocator, workspaces too.
    Unit:   bytes.
    Raises: ValueError for an n_iterations that is no positive integer; whatever the model raises.
    """
    check_positive(n_iterations=n_iterations)
    log = _Log(gpu)
    with log.phase(0, TO_DEVICE):
        model = make_model()
        optimizer = make_optimizer([parameter for parameter in model.parameters() if parameter.requires_grad])
    for iteration in range(1, n_iterations + 1):
        with log.phase(iteration, "forward"):
            with log.labelled("input"):
                batch = make_batch()
            output = model(batch)
            del batch
            with log.labelled("loss"):
                loss = output.sum()
            del output
        with log.phase(iteration, "backward"):
            loss.backward()
        with log.phase(iteration, "step"):
            optimizer.step()
        with log.phase(iteration, "zero_grad"):
            optimizer.zero_grad()
    return log.readings(f"{type(model).__name__} on {gpu.name}, {gpu.origin}")


def _mark(iteration: int, phase: str) -> str:
    return f"iteration {iteration} {phase}" if iteration else phase


class _Log:
    """Takes the readings of one run, and labels the trace of a simulated GPU as it goes."""

    def __init__(self, gpu):
        self._gpu = gpu
        self._trace: Trace | None = getattr(gpu, "trace", None)
        self._rows: list[tuple[int, str, int, int]] = []

    def labelled(self, label: str):
        """Whatever is allocated in this block of code is marked as made in it."""
        return self._trace.in_phase(label) if self._trace is not None else nullcontext()

    @contextmanager
    def phase(self, iteration: int, name: str) -> Iterator[None]:
        self._gpu.reset_peak_memory_stats()
        with self.labelled(name):
            yield
        self._rows.append((iteration, name, self._gpu.memory_allocated(), self._gpu.max_memory_allocated()))
        if self._trace is not None:
            self._trace.mark(_mark(iteration, name))

    def readings(self, title: str) -> Readings:
        parts = parts_at_marks(self._trace)[-len(self._rows) :] if self._trace is not None else [{}] * len(self._rows)
        rows, before_bytes = [], 0
        for (iteration, phase, n_bytes, peak_bytes), consists_of in zip(self._rows, parts, strict=True):
            rows.append(Reading(iteration, phase, n_bytes, n_bytes - before_bytes, peak_bytes, consists_of))
            before_bytes = n_bytes
        return Readings(title, tuple(rows))


def categories(trace: Trace) -> dict[int, str]:
    """What each allocation of a trace is, by its number, judged by when it was made and how long it lived.

    What lives past the mark at the end of its phase is what that phase makes: parameters, input, activations, loss,
    gradients, optimizer state. What is gone by then is a temporary. What has a name of its own is that.
    """
    found: dict[int, str] = {}
    made_at: dict[int, int] = {}
    n_marks = 0
    for event in trace:
        if event.action == "mark":
            n_marks += 1
        elif event.action == "alloc":
            made_at[event.allocation] = n_marks
            found[event.allocation] = event.name or _MADE_IN.get(event.phase, "other")
        elif event.action == "free" and made_at.get(event.allocation) == n_marks:
            found[event.allocation] = TEMPORARIES
    return found


def parts_at_marks(trace: Trace) -> list[dict[str, int]]:
    """For each mark of a trace, the allocated bytes at that moment by category, in the order in which they came up.

    Unit: bytes, of whole blocks.
    """
    category = categories(trace)
    present: dict[str, int] = {}
    result = []
    for event in trace:
        if event.action == "mark":
            result.append({name: n_bytes for name, n_bytes in present.items() if n_bytes})
        elif event.action in ("alloc", "free"):
            name = category.get(event.allocation, "other")
            sign = 1 if event.action == "alloc" else -1
            present[name] = present.get(name, 0) + sign * event.block_bytes
    return result

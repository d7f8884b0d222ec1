"""Training steps for which a GPU has room, one run at a time in a process, and what can be read from the last step."""

import gc
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Protocol

from every_byte.failures import sentence
from every_byte.formula.expressions import Expression
from every_byte.gpu.capacity import Fit, Room, fit
from every_byte.gpu.device import fresh_gpu, spec_of
from every_byte.gpu.live.gpu import LIVE
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.protocol import GPU
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.ledger import Ledger
from every_byte.ledger.requests import Moment, Requests
from every_byte.ledger.trace import Trace
from utils.formulas.moments import Beginning, Highest

one_at_a_time = threading.Lock()
"""Held by whoever runs an experiment for which it matters which attention kernels PyTorch may take: that is a setting
of the whole process, and explorers account on another thread than cells."""

_ROOM_BYTES = 1 << 60


def roomy(spec: GPUSpec) -> GPUSpec:
    """The same GPU, simulated, with memory enough for whatever is asked."""
    return replace(spec, total_bytes=_ROOM_BYTES)


def requests_of(gpu: str | GPUSpec, run: Callable[[SimulatedGPU], Iterable[Moment]]) -> Requests:
    """What a program asks of a simulated GPU with room for it, up to the last moment or to what it is refused with."""
    with SimulatedGPU(roomy(spec_of(gpu))) as fresh:
        try:
            return Requests(fresh.trace, tuple(run(fresh)))
        except (RuntimeError, ValueError) as error:
            return Requests(fresh.trace, (), sentence(error))


@contextmanager
def roomy_gpu(gpu: str | GPUSpec) -> Iterator[GPU]:
    """A fresh simulated GPU that is `roomy`, or this machine's own with what it has, for one experiment at a time."""
    with one_at_a_time, _collector_at_rest(), fresh_gpu(LIVE if gpu == LIVE else roomy(spec_of(gpu))) as fresh:
        yield fresh


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Python's collector rests meanwhile, so that what only refers to itself stays as long as in a recording.

    It would come often: a second's experiment leaves a trace of some ten thousand objects.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def zeros_for_granted() -> Iterator[None]:
    """No warning where a program reads what a simulated GPU has not computed, and takes no size from it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "nothing is computed on a simulated GPU")
        yield


class Step(Protocol):
    """A way to train for some steps of which the last asks for what every later one would.

    `micro_batches`: how many a step has. `beginnings`: by which event of the last step each moment begins of which a
    closed form speaks, in the letters of `letters`.
    """

    @property
    def n_steps(self) -> int: ...
    @property
    def micro_batches(self) -> int: ...
    @property
    def letters(self) -> dict[str, int]: ...
    @property
    def beginnings(self) -> Mapping[str, Beginning | Highest]: ...
    @property
    def spec(self) -> GPUSpec: ...


@dataclass(frozen=True)
class StepRun:
    """The trace of training steps, with the marks of `train_steps`, and what can be read from the last of them.

    `room` says what was reserved of how much.
    """

    step: Step
    trace: Trace
    room: Room = field(default_factory=Room, repr=False, compare=False)

    @property
    def after(self) -> str:
        """The mark before the last step."""
        return f"step {self.step.n_steps - 1} zero_grad"

    @property
    def until(self) -> str:
        """The mark behind it."""
        return f"step {self.step.n_steps} zero_grad"

    @property
    def positions(self) -> dict[str, int]:
        """For each moment of the step, the position in the trace."""
        return {name: self._position(beginning) for name, beginning in self.step.beginnings.items()}

    def _position(self, beginning: Beginning | Highest) -> int:
        if isinstance(beginning, Highest):
            return self._highest(beginning)
        position = self.trace.position(self._end_of(beginning.phase))
        if not beginning.operations:
            return position
        *before, last = beginning.operations
        for operation in before:
            position = self._first(operation, position)
        wanted: dict[str, object] = {"module": beginning.module} if beginning.module is not None else {}
        if beginning.n_bytes is not None:
            wanted["n_bytes"] = Expression(beginning.n_bytes).value(self.step.letters)
        return 1 + self._first(last, position, **wanted)

    def _end_of(self, phase: str) -> str:
        """The mark behind a phase of the last step's last micro-batch."""
        n_micro = self.step.micro_batches
        is_of_micro = n_micro > 1 and phase in ("batch", "forward", "backward")
        return f"step {self.step.n_steps} {f'micro {n_micro} ' if is_of_micro else ''}{phase}"

    def _highest(self, wanted: Highest) -> int:
        """Right behind the allocation that is meant."""
        end = self.trace.position(self._end_of(wanted.phase))
        start = 1 + max(i for i, event in enumerate(self.trace.events[:end]) if event.action == "mark")
        size = wanted.n_bytes and Expression(wanted.n_bytes).value(self.step.letters)
        patterns = {name: getattr(wanted, name) for name in ("operation", "node", "module")}
        if wanted.behind:
            start = self._last(wanted.behind, start, end)
        if wanted.ahead_of:
            inside = (i for i in range(start, end) if fnmatchcase(self.trace.events[i].module, wanted.ahead_of))
            end = next(inside, end)
        n_bytes, places = self.trace.requested_bytes(start), []
        for position, event in enumerate(self.trace.events[start:end], start + 1):
            n_bytes += {"alloc": 1, "free": -1}.get(event.action, 0) * event.n_bytes
            if event.action != "alloc" or (size and event.n_bytes != size):
                continue
            if all(fnmatchcase(getattr(event, name), pattern) for name, pattern in patterns.items()):
                places.append((n_bytes, -position))
        if not places:
            raise ValueError(f"the phase must have what is asked for: got {wanted}, and nothing like it was allocated.")
        return -max(places)[1]

    def _last(self, operation: str, start: int, end: int) -> int:
        """The position right behind an operation's last allocation, or `start`."""
        from_the_end = (
            position
            for position in range(end, start, -1)
            if (self.trace.events[position - 1].action, self.trace.events[position - 1].operation)
            == ("alloc", operation)
        )
        return next(from_the_end, start)

    def _first(self, operation: str, start: int, **wanted: object) -> int:
        """The position of an operation's first allocation from `start` on."""
        wanted |= {"action": "alloc", "operation": operation}
        for position, event in enumerate(self.trace.events[start:], start):
            if all(getattr(event, name) == value for name, value in wanted.items()):
                return position
        what = f"a training step must have {operation} after event {start:,d}"
        raise ValueError(f"{what}: this one has not; run it by train_steps, on a fresh GPU.")

    @property
    def peak(self) -> int:
        """The position at which the most is allocated in the step."""
        return self.trace.peak_position(after=self.after, until=self.until)

    def account(self) -> dict[str, dict[str, int]]:
        """For each moment, the requested bytes of each category of the ledger, without what was there before."""
        ledgers = {name: Ledger.at(self.trace, at).of_the_program for name, at in self.positions.items()}
        return {name: {k: n for k, n in ledger.parts.items() if k != "slack"} for name, ledger in ledgers.items()}

    def fit(self, settings: str = "") -> Fit | None:
        """Whether training like this fits on the GPU, and by how much; None where it was measured: it did fit.

        `settings` are the allocator's, as PYTORCH_ALLOC_CONF has them: what is asked for is the same with any.
        """
        if self.trace.origin == "measured":
            return None
        return fit(self.needed, self.step.spec, after=self.after, until=self.until, settings=settings)

    @property
    def needed(self) -> Trace:
        """Of the trace what whoever trains like this must have room for."""
        return self.trace

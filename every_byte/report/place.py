"""Where in a run something happened: in which step of training, in which phase of it, in which module."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from every_byte.ledger.events import Event
from every_byte.ledger.source_lines import Line
from every_byte.ledger.trace import Trace

from .steps import Step

_IN_WORDS = {"": "outside forward and backward", "step": "optimizer"}
"""What phases are called beside steps of training, of which the optimizer's is a part; the others keep their names."""


def phase_name(phase: str) -> str:
    """A phase in words."""
    return _IN_WORDS.get(phase, phase)


@dataclass(frozen=True)
class Place:
    """The step (0: none), the phase, and what was under way; `is_after`: no step ends after it; `line`: who called."""

    step: int
    phase: str
    module: str = ""
    operation: str = ""
    is_after: bool = False
    line: Line | None = None

    @classmethod
    def of(cls, trace: Trace, steps: Sequence[Step], position: int) -> "Place":
        """Of the event that is the last before this position."""
        event = trace.events[position - 1] if position else Event("mark")
        step, is_after = step_at(steps, position - 1)
        module, operation = trace.called(event.module), event.operation.removeprefix("aten::")
        return cls(step, event.phase, module, operation, is_after, event.stack.own)

    @property
    def step_name(self) -> str:
        """`step 2`, `after step 3`, or "" where no step ended."""
        return name_of(self.step, self.is_after)

    @property
    def when(self) -> str:
        """`step 2, backward`."""
        return ", ".join(filter(None, [self.step_name, phase_name(self.phase)]))

    @property
    def at(self) -> str:
        """The same within a sentence: `in step 2, backward`, `after step 3, forward`, `in forward`."""
        if self.step_name:
            return self.when if self.is_after else f"in {self.when}"
        return f"in {phase_name(self.phase)}" if self.phase else phase_name("")

    def __str__(self) -> str:
        at = f" in {self.module}" if self.module else ""
        return f"{self.when}{at}{f' ({self.operation})' if self.operation else ''}"


def step_at(steps: Sequence[Step], index: int) -> tuple[int, bool]:
    """The step in which event number `index` lies, 0 before all of them; and whether it is after that step's end."""
    i = bisect_right([step.begin for step in steps], index) - 1
    if i < 0:
        return 0, False
    return steps[i].number, index >= steps[i].end


def name_of(step: int, is_after: bool) -> str:
    """A step in words, as `Place.step_name`."""
    return "" if not step else f"after step {step}" if is_after else f"step {step}"

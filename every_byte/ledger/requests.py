"""What a program asks of the allocator, and which of it each term of an account counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .trace import Trace


@dataclass(frozen=True)
class Moment:
    """An instant of a trace that an account speaks of.

    `position` is how many events came before. `kept` has for each term the allocations that it counts, by their number;
    `stage` is the stage or part of the formula, "" where it has none. Several stages may be of one position. What else
    a term counts, in the host's memory, is in `on_host`.

    Counts: each allocation as it was requested, without slack; with `in_blocks`, each as a whole block.
    Unit:   bytes in `on_host`.
    """

    stage: str
    position: int
    kept: Mapping[str, Sequence[int]]
    on_host: Mapping[str, int] = field(default_factory=dict)
    in_blocks: bool = False


@dataclass(frozen=True)
class Requests:
    """A run on a simulated GPU with room for it, and the moments at which its account is taken, in order.

    `refused` is the sentence in which it ended before, if PyTorch or the program refused the setting.
    """

    trace: Trace
    moments: tuple[Moment, ...]
    refused: str = ""

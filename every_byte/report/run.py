"""What a run took of a GPU's memory: where its peak is, who owns it, and on which GPUs it fits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from every_byte.gpu.capacity import room_on
from every_byte.gpu.evidence import HELD, UNRECORDED, Evidence
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.protocol import GPU
from every_byte.ledger.ledger import Ledger
from every_byte.ledger.source_lines import Line, LineNames
from every_byte.ledger.trace import Trace
from every_byte.widget.timeline import reserved_after

from .fits import UP_TO_AN_ERROR, Fits, Verdict, fits_on, settings_of
from .growth import Growth, growth_of
from .libraries import Library, imported
from .lines import lines_of_owners, names_of_lines
from .note import Note
from .notes import notes_of, of_card, of_version
from .owners import Owner
from .place import Place
from .roots import look_for, names_of
from .shortage import Shortage, shortage_of
from .steps import Step

TIGHT, CUT_UP = 0.03, 0.05
"""A run with less than this share of the room to spare is tight, one with more of its segments never in use cut up."""


@dataclass(frozen=True, repr=False, kw_only=True)
class Run:
    """A program that ran on a GPU, up to the moment at which it is asked; a `Report` is one that can be shown.

    `trace` has what happened, `steps` where each optimizer step ended, `notes` what is not followed or not known.
    `command` are the words that started it, `ended` says how it ended, and `was_stopped` that there were steps enough.
    `rank` is which it was of how many, None where nobody said. `memory_fraction` is what the program let segments take
    of the GPU's whole memory when the report was made.

    Counts: the caching allocator's blocks and segments; the CUDA context stands beside them, as an assumption.
            `allocated_at_end_bytes` is what is in use when the report is made.
    Unit:   bytes, and `seconds`.
    """

    trace: Trace
    spec: GPUSpec
    total_bytes: int
    steps: tuple[Step, ...]
    command: tuple[str, ...]
    ended: str
    exit_code: int
    seconds: float
    notes: tuple[Note, ...]
    allocated_at_end_bytes: int
    torch_version: str
    memory_fraction: float
    rank: tuple[int, int] | None = None
    was_stopped: bool = False
    libraries: tuple[Library, ...] = ()

    @classmethod
    def of(
        cls,
        gpu: GPU,
        *,
        steps: Sequence[Step] = (),
        command: Sequence[str] = (),
        ended: str = "",
        exit_code: int = 0,
        seconds: float = 0.0,
        notes: Sequence[Note] = (),
        rank: tuple[int, int] | None = None,
        was_stopped: bool = False,
    ) -> Self:
        """The report of what has happened on a GPU up to now, a simulated or a live one, open or closed.

        Raises: TypeError for what is no GPU; ValueError for steps that do not follow one another in its trace.
        """
        if not hasattr(gpu, "look_around"):
            raise TypeError(f"gpu must be a simulated or a live GPU: got {type(gpu).__name__}.")
        now = gpu.look_around()
        look_for(now.roots)
        trace = replace(now, events=list(now.events), look=None, names=names_of(now), notes=now.notes.as_now())
        _check(steps, len(trace))
        spec = gpu.spec
        return cls(
            trace=trace,
            spec=spec,
            total_bytes=gpu.mem_get_info()[1],
            steps=tuple(steps),
            command=tuple(command),
            ended=ended,
            exit_code=exit_code,
            seconds=seconds,
            notes=(*of_version(trace, spec), *of_card(trace, spec), *notes, *notes_of(trace)),
            allocated_at_end_bytes=gpu.memory_allocated(),
            torch_version=trace.torch_version or spec.torch_version,
            memory_fraction=gpu.get_per_process_memory_fraction(),
            rank=rank,
            was_stopped=was_stopped,
            libraries=imported(),
        )

    # what was found

    @property
    def origin(self) -> str:
        """`simulated` or `measured`."""
        return self.trace.origin

    @property
    def gpu(self) -> str:
        """The GPU's name."""
        return self.spec.name

    @cached_property
    def is_empty(self) -> bool:
        """Whether nothing was ever asked for."""
        return not any(event.action in ("alloc", "oom") for event in self.trace.events)

    @cached_property
    def holds_something(self) -> bool:
        """Whether anything was ever allocated: not where the very first request was refused."""
        return any(event.action == "alloc" for event in self.trace.events)

    @cached_property
    def reserved(self) -> list[int]:
        """The bytes of all segments after each event."""
        return reserved_after(self.trace, len(self.trace))

    @cached_property
    def room_bytes(self) -> int:
        """What segments may take: of a simulated GPU all but the CUDA context, whose size is assumed.

        Counts: no more than the fraction that the program has set.
        """
        if self.origin == "measured":
            return int(self.total_bytes * self.memory_fraction)
        return room_on(self.spec, self._settings)[0]

    @cached_property
    def peak(self) -> Ledger:
        """Who owns what is allocated at the highest instant of the run."""
        return Ledger.at_peak(self.trace)

    @cached_property
    def peak_position(self) -> int:
        """How many events had happened then."""
        return self.trace.peak_position()

    @cached_property
    def peak_place(self) -> Place:
        """In which step and phase that was."""
        return self.place(self.peak_position)

    @cached_property
    def peak_reserved_bytes(self) -> int:
        """The most that segments took."""
        return max([*self.reserved, *(step.max_reserved_bytes for step in self.steps)], default=0)

    @cached_property
    def shortage(self) -> Shortage | None:
        """The last request for which there was no room; None if there was room for all."""
        return shortage_of(self.trace, self.steps, self.reserved, self.room_bytes)

    @property
    def fatal(self) -> Shortage | None:
        """The request with which the run ended for want of memory; None where it did not."""
        return self.shortage if self.shortage is not None and self.shortage.is_end else None

    @property
    def ran_out(self) -> bool:
        """Whether the run ended for want of memory."""
        return self.fatal is not None

    @cached_property
    def survived(self) -> list[int]:
        """The positions of the requests for which there was no room, and after which the program went on."""
        refused = [position for position, event in enumerate(self.trace.events) if event.action == "oom"]
        return refused[:-1] if self.ran_out else refused

    @cached_property
    def fits(self) -> Fits:
        """Whether its requests fit on this GPU, and on the others that are known."""
        refused_at = self.fatal.position if self.fatal else None
        fits = fits_on(self.trace, self.steps, self.spec, refused_at, self._settings)
        return replace(fits, basis=UP_TO_AN_ERROR) if self.exit_code and not (self.steps or self.ran_out) else fits

    @cached_property
    def with_expandable(self) -> Verdict | None:
        """The verdict on this GPU with expandable segments, where it does not fit or is tight; else None.

        Counts: the same requests, replayed; None also where the run had them, or went on where memory ran out.
        """
        own = self.fits.own
        is_tight = own.n_retries > 0 or own.margin_bytes < own.room_bytes * TIGHT
        return None if own.fits and not is_tight else self._expandable

    @cached_property
    def with_expandable_if_cut_up(self) -> Verdict | None:
        """The same also where it fits, if a twentieth of what segments take at most is more than is ever in use."""
        own = self.fits.own
        is_cut_up = own.needed_bytes * (1 - CUT_UP) > own.in_use_bytes
        return self._expandable if is_cut_up or not own.fits else None

    @cached_property
    def _expandable(self) -> Verdict | None:
        own, had = self.fits.own, self._settings.expandable_segments
        if self.origin == "measured" or had or self.survived and not self.fatal or own.in_use_bytes > own.room_bytes:
            return None
        settings = replace(self._settings, expandable_segments=True)
        refused_at = self.fatal.position if self.fatal else None
        return fits_on(self.trace, self.steps, self.spec, refused_at, settings, others=()).own

    @property
    def _settings(self) -> AllocatorSettings:
        return settings_of(self.trace, self.memory_fraction)

    @property
    def growth(self) -> Growth | None:
        """What each step leaves more than the one before; None where nothing is, or too little to matter."""
        return None if self._is_slow else self._growth

    @property
    def slow_growth(self) -> Growth | None:
        """The same where it is too little to matter for memory."""
        return self._growth if self._is_slow else None

    @cached_property
    def _growth(self) -> Growth | None:
        return growth_of(self.trace, self.steps, self.room_bytes)

    @property
    def _is_slow(self) -> bool:
        return self._growth is not None and self._growth.is_slow(self.room_bytes, self.steps[-1].max_allocated_bytes)

    @property
    def account(self) -> Ledger:
        """The instant that matters: when memory ran out, if the run ended so; else the peak."""
        return self.fatal.ledger if self.fatal else self.peak

    @cached_property
    def line_names(self) -> LineNames | None:
        """What the program's lines are called; None where no line was noted."""
        return names_of_lines(self.trace)

    @cached_property
    def lines_of_owners(self) -> dict[Owner, list[Line]]:
        """The lines that made each owner's allocations at the instant that matters."""
        return lines_of_owners(self.account.rows)

    @cached_property
    def evidence(self) -> Evidence:
        """Which of the operators that ran recordings hold: on this architecture, on another, or none."""
        return Evidence.of(self.trace.notes.operators, self.spec)

    @property
    def level(self) -> str:
        """How far a simulated run's figures can be trusted, one of the levels of `Evidence`, from best to worst.

        `held`: recordings on this architecture hold every operator that ran, and all was followed to the end.
        `elsewhere`: recordings on other architectures or of other versions alone hold some operators. `unrecorded`: no
        recording holds some of them, or something was not followed, or the run ended by an error. Whether the program's
        allocations depend on values that it read is another question: `Trace.notes.values_read` has their lines.
        """
        return UNRECORDED if self.unfollowed or self.ended_early else self.evidence.level

    @property
    def is_exact(self) -> bool:
        """Whether recordings hold all that ran on this architecture, all was followed, and no value read is unknown."""
        return self.origin == "measured" or self.level == HELD and not self.trace.notes.values_read

    @property
    def ended_early(self) -> bool:
        """Whether it ended by an error, other than running out of memory."""
        return bool(self.exit_code) and not self.ran_out and not self.was_stopped

    @property
    def unfollowed(self) -> list[Note]:
        """What keeps its figures from being exact, but for values that were read."""
        read = {note.what for note in notes_of(self.trace) if note.is_of_values}
        return [note for note in self.notes if note.is_of_figures and note.what not in read]

    def place(self, position: int) -> Place:
        """In which step and phase a position of the trace lies."""
        return Place.of(self.trace, self.steps, position)


def _check(steps: Sequence[Step], n_events: int) -> None:
    ends = [0, *(step.end for step in steps)]
    for before, step in zip(ends[:-1], steps, strict=True):
        if not before <= step.begin <= step.end <= n_events:
            raise ValueError(
                f"steps must follow one another within the trace: got step {step.number} from {step.begin:,d} to "
                f"{step.end:,d}, after {before:,d}, and the trace has {n_events:,d} events."
            )

"""Runs at many sizes, each kept: what a run holds at its moments, and which sizes a program takes at all."""

import gc
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

from every_byte.formula.expressions import in_order
from every_byte.gpu.memory.calls import Called
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.ledger.trace import Trace
from every_byte.progress import tell
from every_byte.step.training_step import END_OF_FORWARD, TrainingStep

from .keys import Instances, Key, Moment, Table, at_mark, instances, peak_of, place_of, table
from .polynomials import Point
from .stages import Stages

NO_LIMIT_BYTES = 2**50
"""The memory of the GPU that sizes are tried on: no formula ends where memory does."""


@dataclass
class Sample:
    """A run at one point; `at` has what it holds at a moment, None where it never comes to that.

    `stages` say which modules' numbers keys and moments have.
    """

    point: Point
    trace: Trace
    stages: Stages = frozenset()
    _tables: dict[tuple[Moment, bool], Table | None] = field(default_factory=dict)

    @cached_property
    def _instances(self) -> Instances:
        return instances(self.trace, END_OF_FORWARD, self.stages)

    @cached_property
    def _peak(self) -> tuple[Moment, int]:
        return peak_of(self._instances)

    def tell_apart(self, stages: Stages) -> None:
        """Let its keys and moments have the numbers of stages, before a moment's own are asked for."""
        self.stages = stages
        self._tables.clear()

    @property
    def peak(self) -> Moment:
        """The moment at which most is requested; the first of equals."""
        return self._peak[0]

    @property
    def peak_bytes(self) -> int:
        """The most that is requested at one time."""
        return self._peak[1]

    def at(self, moment: Moment, *, is_alike: bool) -> Table | None:
        """What is held there, by key."""
        if (moment, is_alike) not in self._tables:
            position = self._position(moment)
            found = None if position is None else table(self.trace, position, self.stages, is_alike=is_alike)
            self._tables[moment, is_alike] = found
        return self._tables[moment, is_alike]

    def call(self, moment: Moment, key: Key, is_alike: bool) -> Called | None:
        """The call by which memory without a tensor was taken that is held at a moment, or would be; None: none was."""
        table = self.at(moment, is_alike=is_alike)
        if table is None or not self.calls:
            return None
        made_at = table.made_at.get(key, table.position - 1)
        i = bisect_right(self.calls, made_at) - 1
        call: Called | None = (self.trace.notes.calls or {})[self.calls[i]] if i >= 0 else None
        return call if call and call.func.name().removeprefix("aten::") == key.name else None

    @cached_property
    def calls(self) -> list[int]:
        """How many events came before each call that was noted."""
        return sorted(self.trace.notes.calls or {})

    @cached_property
    def kinds(self) -> frozenset[Key]:
        """The kinds of rows at the end of forward: two runs with the same ran the same kernels."""
        table = self.at(at_mark(END_OF_FORWARD), is_alike=True)
        return frozenset(key.alike for key in table.n_bytes) if table else frozenset()

    def _position(self, moment: Moment) -> int | None:
        if moment == at_mark(END_OF_FORWARD):
            return self.trace.position(END_OF_FORWARD)
        return place_of(self._instances, moment)


class Samples:
    """The runs of one step of training at all sizes that were tried; `refused` has what a program said of others.

    A point has the values of `letters`, which are in the book's order.
    """

    def __init__(self, step: TrainingStep, spec: GPUSpec, n_steps: int, settings: str) -> None:
        self._step, self.spec = step, replace(spec, total_bytes=NO_LIMIT_BYTES)
        self._n_steps, self._settings = n_steps, settings
        self.letters = tuple(in_order(step.letters))
        self.base: Point = tuple(step.letters[letter] for letter in self.letters)
        self.refused: dict[Point, str] = {}
        self._found: dict[Point, Sample] = {}
        self.stages: Stages = frozenset()
        self._passes_over = False

    def run(self, point: Point) -> Sample:
        """The run at a point that the program does take. Raises: ValueError where it does not."""
        if (sample := self.at(point)) is None:
            raise ValueError(f"a point must be one that the program takes: got {point}, {self.refused.get(point)}.")
        return sample

    def __iter__(self) -> Iterator[Sample]:
        return iter(list(self._found.values()))

    def __len__(self) -> int:
        return len(self._found)

    def tell_apart(self, stages: Stages) -> None:
        """Let keys and moments have the numbers of stages, of all runs."""
        self.stages = stages
        for sample in self:
            sample.tell_apart(stages)

    def known(self, point: Sequence[int]) -> Sample | None:
        """The run at a point, if it was made already."""
        return self._found.get(tuple(point))

    def at(self, point: Sequence[int]) -> Sample | None:
        """The run at a point; None where the program, or its model, does not take these sizes."""
        point = tuple(point)
        if point not in self._found and point not in self.refused:
            step = replace(self._step, letters=dict(zip(self.letters, point, strict=True)))
            sizes = ", ".join(f"{letter}={value:,d}" for letter, value in step.letters.items())
            tell(f"run {len(self._found) + len(self.refused) + 1:,d}: {sizes}")
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of operations that are not modelled: the closed form names them
                    report = step.run(self.spec, self._n_steps, self._settings, notes_calls=True)
            except Exception as error:  # whatever a reader's model says of sizes that do not go together
                self.refused[point] = f"{type(error).__name__}: {error}"
                return None
            self._found[point] = Sample(point, report.trace, self.stages)
            if self._passes_over:
                gc.collect()  # what ended with the run, lest it be kept
                gc.freeze()
        return self._found.get(point)

    @contextmanager
    def passed_over(self) -> Iterator[None]:
        """While it lasts, Python's garbage collector, and a look at all there is, pass over the runs that were kept.

        They are hundreds of thousands of objects, none of which a later run has anything to do with.
        """
        was_frozen, self._passes_over = gc.get_freeze_count(), True
        try:
            yield
        finally:
            self._passes_over = False
            if not was_frozen:  # else somebody else wants it so
                gc.unfreeze()

"""Advice about a reader's step: what was run with each remedy, the lines to write, and one recommendation."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Generic

from every_byte.step.training_step import TrainingStep
from every_byte.tables import Table
from every_byte.units import exact, short

from .largest import Largest, largest_of
from .remedy import Left, S
from .runs import Bench, Ran

HEAD = ["remedy", "statements", "numbers", "FLOPs", "peak allocated, bytes", "difference", "segments need", "fits"]


@dataclass(frozen=True, repr=False)
class Advice(Generic[S]):
    """What was run: the plain step, each remedy, and several together; `left` are those that were not, and why.

    All figures are simulated. `runs` are in order of their peaks. `sizes` are the largest batch and the longest
    sequence that fit, with the name of what was run.

    Unit:   bytes.
    """

    bench: Bench
    plain: Ran[S]
    runs: tuple[Ran[S], ...]
    left: tuple[Left, ...]
    sizes: tuple[tuple[str, Largest], ...] = ()

    @property
    def budget_bytes(self) -> int:
        """What segments may take."""
        return self.bench.budget_bytes

    @cached_property
    def best(self) -> Ran[S] | None:
        """The plain step if it fits; else the cheapest that does, first of the same numbers; None if none does."""
        return self.best_of_same_values or self.best_of_other_values

    @cached_property
    def best_of_same_values(self) -> Ran[S] | None:
        """The plain step if it fits; else the cheapest that does and leaves training's numbers as they are.

        Counts: what waits for the host last; the fewest FLOPs, then the fewest statements to write, then parts.
        """
        return self.plain if self.plain.fits else _cheapest(ran for ran in self.runs if ran.fits and ran.keeps_values)

    @cached_property
    def best_of_other_values(self) -> Ran[S] | None:
        """The cheapest that fits of those that change the numbers.

        Counts: FLOPs among those of one precision; among precisions the fewest remedies, then statements.
        """
        return _cheapest(ran for ran in self.runs if ran.fits and not ran.keeps_values)

    @cached_property
    def lowest(self) -> Ran[S]:
        """The one with the lowest peak."""
        return min((self.plain, *self.runs), key=lambda ran: ran.peak_bytes)

    def of(self, name: str) -> Ran[S]:
        """What was run under that name, as the table has it.

        Raises: ValueError for a name that is not among them.
        """
        found = {ran.name: ran for ran in (self.plain, *self.runs)}
        if name not in found:
            raise ValueError(f"name must be one of {', '.join(map(repr, found))}: got {name!r}.")
        return found[name]

    def largest(self: "Advice[TrainingStep]", letter: str, of: Ran[TrainingStep] | str = "plain") -> Largest:
        """The largest value of a letter that fits with these remedies, in the same room."""
        ran = self.of(of) if isinstance(of, str) else of
        return largest_of(self.bench, self.plain.step, letter, ran.remedies)

    def __repr__(self) -> str:
        return text_of(self)

    def _repr_html_(self) -> str:
        return html_of(self)


def _cheapest(runs: Iterable[Ran[S]]) -> Ran[S] | None:
    """Of each precision the one of the lowest price, for FLOPs compare there alone; of these the least change."""
    found: dict[str, Ran[S]] = {}
    for ran in runs:
        other = found.setdefault(ran.precision, ran)
        found[ran.precision] = min(other, ran, key=_price)
    return min(
        found.values(), key=lambda ran: (ran.waits, len(ran.remedies), ran.n_statements, ran.peak_bytes), default=None
    )


def _change(ran: Ran[S]) -> tuple[int, ...]:
    return ran.waits, len(ran.remedies), ran.n_statements, ran.peak_bytes


def _price(ran: Ran[S]) -> tuple[int, ...]:
    return ran.waits, ran.flops, ran.n_statements, ran.parts, ran.peak_bytes


# how it is shown


def text_of(advice: Advice[S]) -> str:
    """The table, the recommendation, what each takes and costs, and what was not run; if it fits, that first."""
    first, then = _first_and_then(advice)
    blocks = [title(advice), first, Table("", HEAD, rows(advice), numbers=5).text(), sizes(advice), then]
    return "\n\n".join(filter(None, [*blocks, exactness(advice), *told_of(advice), left_of(advice)]))


def html_of(advice: Advice[S]) -> str:
    """The same for a notebook; the lines of each remedy are folded."""
    folded = "".join(
        f"<details><summary>{escape(ran.name)}{escape(_note(ran))}</summary><pre>{escape(ran.lines)}</pre></details>"
        for ran in _singles(advice)
    )
    first, then = _first_and_then(advice)
    left = "".join(f"<li>{escape(f'{one.name}: {one.reason}')}</li>" for one in advice.left)
    return (
        (f"<p>{escape(first)}</p>" if first else "")
        + Table(title(advice), HEAD, rows(advice), numbers=5).html()
        + "".join(f"<p>{escape(line)}</p>" for line in (*sizes(advice).splitlines(), then, exactness(advice)) if line)
        + folded
        + (f"<p>Not run:</p><ul>{left}</ul>" if left else "")
    )


def _first_and_then(advice: Advice[S]) -> tuple[str, str]:
    """That it fits as it is comes before all else, any other recommendation behind the table."""
    said = recommendation(advice)
    return (said, "") if advice.plain.fits else ("", said)


def title(advice: Advice[S]) -> str:
    """What the figures are."""
    bench = advice.bench
    return (
        f"Simulated: {bench.n_steps} steps with each remedy, on {bench.spec.name}; "
        f"segments may take {exact(advice.budget_bytes)}."
    )


def rows(advice: Advice[S]) -> list[list[str]]:
    """Each run in order of its peak, the plain one among them."""
    plain = advice.plain
    return [_row(ran, plain) for ran in sorted((plain, *advice.runs), key=lambda ran: ran.peak_bytes)]


def _row(ran: Ran[S], plain: Ran[S]) -> list[str]:
    return [
        ran.name,
        str(ran.n_statements or ""),
        "" if ran is plain else "the same" if ran.keeps_values else "others",
        more_flops(ran, plain),
        f"{ran.peak_bytes:,d}",
        "" if ran is plain else f"{ran.peak_bytes - plain.peak_bytes:+,d}",
        f"{ran.needed_bytes:,d}",
        "yes" if ran.fits else "no",
    ]


def more_flops(ran: Ran[S], plain: Ran[S]) -> str:
    """The extra fraction of FLOPs, in percent; of the plain step its FLOPs."""
    if ran is plain:
        return f"{plain.flops:.3g}"
    return f"{(ran.flops - plain.flops) / plain.flops:+.1%}" if plain.flops else "none counted"


def sizes(advice: Advice[S]) -> str:
    """What fits at most, a line for each that was run so."""
    return "\n".join(f"{name}: {found}" for name, found in advice.sizes)


def exactness(advice: Advice[S]) -> str:
    """Which figures are not to the byte; "" if all are."""
    inexact = [ran for ran in (advice.plain, *advice.runs) if not ran.is_exact]
    if not inexact:
        return ""
    which = (
        "All figures"
        if len(inexact) > len(advice.runs)
        else f"The figures of {len(inexact)} run{'' if len(inexact) == 1 else 's'}"
    )
    return (
        f"{which} may not be to the byte: recordings on this architecture do not hold all that ran, or a value was "
        "read; the report of an account, or of `every-byte run`, says what."
    )


def _singles(advice: Advice[S]) -> list[Ran[S]]:
    return [ran for ran in advice.runs if len(ran.remedies) == 1]


def told_of(advice: Advice[S]) -> list[str]:
    """Each remedy, what it costs, and its lines."""
    blocks = []
    for ran in _singles(advice):
        lines = "\n".join(f"    {line}".rstrip() for line in ran.lines.splitlines())
        blocks.append(f"{ran.name}{_note(ran)}\n{lines}")
    return blocks


def _note(ran: Ran[S]) -> str:
    notes = "; ".join(remedy.note for remedy in ran.remedies if remedy.note)
    return f": {notes}" if notes else ""


def left_of(advice: Advice[S]) -> str:
    """What was not run, and why; "" if all was."""
    return "\n".join(["Not run:", *(f"- {one.name}: {one.reason}" for one in advice.left)]) if advice.left else ""


def recommendation(advice: Advice[S]) -> str:
    """That it fits, or the cheapest that does, first of the same numbers; or that none does."""
    same, others, room = advice.best_of_same_values, advice.best_of_other_values, short(advice.budget_bytes)
    if same is advice.plain:
        return f"It fits in {room} as it is."
    if advice.best is None:
        lowest = advice.lowest
        return f"None of these fits in {room}; the lowest peak, {short(lowest.peak_bytes)}, has {lowest.name}."
    said = f"With the same numbers none of these fits in {room}."
    if same is not None:
        said = f"The cheapest that fits in {room} with the same numbers: {_offered(same, advice)}."
    return said if others is None else f"{said} With other numbers: {_offered(others, advice)}."


def _offered(ran: Ran[S], advice: Advice[S]) -> str:
    flops = "" if ran.precision else f"{more_flops(ran, advice.plain)} FLOPs, "
    statements = f"{ran.n_statements} statement{'' if ran.n_statements == 1 else 's'}"
    return f"{ran.name} ({flops}{statements}, {short(ran.peak_bytes)})"

"""A report's verdict, in text as on its page: whether the program fits where it ran, and what must be said beside."""

import re
from dataclasses import dataclass, replace

from every_byte.palette import Category
from every_byte.report.fits import Verdict
from every_byte.report.limit import needed_bytes
from every_byte.report.notes import not_counted, without_compiler
from every_byte.report.place import Place
from every_byte.report.run import Run
from every_byte.report.shortage import Shortage
from every_byte.units import exact, in_gib, short

from . import answer, facts

STARTS = re.compile(
    r"^(?:Fits on|Out of memory on|It ran on|It ended on|It ended before|Nothing was allocated on) ", re.MULTILINE
)
"""How the first line of a report begins."""
_KEEPS_GRAPH = " Something keeps a graph with it: keep .detach() of a tensor, or .item() of a number."
NOTHING = (
    "No tensor was ever made on the GPU. As a rule the program chose the CPU: it asked for a device by another name, "
    "or left before it had one; or it works in processes of its own, which are not followed."
)


@dataclass(frozen=True)
class VerdictText:
    """A verdict: whether it is good (None: there is none), a headline without a stop, and sentences.

    `first` is what to do first, if anything; `in_full` has the headline's bytes to the last digit.
    """

    is_good: bool | None
    headline: str
    reasons: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    in_full: str = ""


def verdict(report: Run) -> VerdictText:
    """Whether it fits where it ran, and with how much to spare; what was not compiled is said first."""
    said = _verdict(report)
    said = replace(said, first=tuple(answer.first(report)), in_full=_in_full(report))
    beside = without_compiler(report.trace)
    return replace(said, headline=f"{said.headline} ({beside})") if beside else said


def _in_full(report: Run) -> str:
    """The bytes of the headline to the last digit."""
    if report.is_empty:
        return ""
    return f"{needed_bytes(report):,d} of {report.room_bytes:,d} bytes"


def _of_room(report: Run) -> str:
    """What is needed of what is there, "3.1 of 14.0 GiB"; where these look alike, also what is between them."""
    needed, room = needed_bytes(report), report.room_bytes
    spare = f", {short(room - needed)} to spare" if in_gib(needed) == in_gib(room) else ""
    return f"{in_gib(needed)} of {in_gib(room)} GiB{spare}"


def _verdict(report: Run) -> VerdictText:
    if report.is_empty:
        return _of_nothing(report)
    if report.fatal:
        return _out_of_memory(report, report.fatal)
    if report.origin == "measured":
        reasons = *survived(report), *grows(report)
        headline = f"It ran on {report.gpu}: PyTorch reserved {_of_room(report)}"
        return VerdictText(None if report.growth else True, headline, reasons)
    if report.exit_code and not report.steps:
        until = f"{in_gib(report.peak_reserved_bytes)} of {in_gib(report.room_bytes)} GiB reserved"
        headline = f"It ended on {report.gpu} before its first step was done, with {until}"
        return VerdictText(None, headline, survived(report))
    own = report.fits.own
    if not own.fits:
        reasons = *survived(report), _cut_up(own), *grows(report), *_not_run(report)
        return VerdictText(False, f"It ran on {report.gpu}, but with more steps memory runs out", reasons)
    return _that_fits(report, own)


def _of_nothing(report: Run) -> VerdictText:
    if not report.exit_code:
        return VerdictText(None, f"Nothing was allocated on {report.gpu}", (NOTHING,))
    by = facts.ended(report).removeprefix(": ").strip()
    reason = f"What ended it: {by}. What it would have taken is not known."
    return VerdictText(None, f"It ended before anything was allocated on {report.gpu}", (reason,))


def _that_fits(report: Run, own: Verdict) -> VerdictText:
    reasons = []
    if own.n_retries:
        reasons.append(f"It is tight: to make room, unused segments went back to the driver {times(own.n_retries)}.")
    beside = f", {unknown}, which is not known" if (unknown := not_counted(report.trace)) else ""
    needs = f"{_of_room(report)}{own.doubt.headline}"
    if report.growth:
        headline = f"Fits on {report.gpu} up to step {report.growth.step}, and grows: needs {needs} then{beside}"
    else:
        headline = f"Fits on {report.gpu}: needs {needs}{beside}"
    earlier, after = (*survived(report), *grows(report)), (*filter(None, [own.doubt.sentence]), *_not_run(report))
    return VerdictText(None if report.growth else True, headline, (*earlier, *reasons, *after))


def grows(report: Run) -> tuple[str, ...]:
    """That the last step left more than the one before, whose that is, and when memory runs out if it goes on so."""
    growth = report.growth
    if growth is None:
        return ()
    owner = growth.largest
    where = f" in {owner.module}" if owner.module else ""
    then = f"; if each later step does, memory runs out at about step {growth.runs_out_at_step:,d}"
    return (
        f"Step {growth.step} left {exact(growth.n_bytes)} more than step {growth.than_step}, above all {owner.category}"
        f"{where} ({facts.what(owner)}){facts.at_line(report, growth.line)}{'' if report.ran_out else then}."
        f"{_KEEPS_GRAPH if owner.category == Category.ACTIVATIONS else ''}",
    )


def _not_run(report: Run) -> tuple[str, ...]:
    """That a program which was stopped would have gone on."""
    if not report.was_stopped:
        return ()
    return (f"What comes after step {len(report.steps)}, as an evaluation, was not run: --steps 0 runs all of it.",)


def times(n: int) -> str:
    """How often: `once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(n, f"{n:,d} times")


def survived(report: Run) -> tuple[str, ...]:
    """That requests were refused and the program went on, and the first of these; nothing if there were none."""
    refused = report.survived
    if not refused:
        return ()
    n = len(refused)
    place, asked_bytes = report.place(refused[0] + 1), report.trace.events[refused[0]].n_bytes
    went_on, first = ("", "") if n == 1 else (" each time", " the first time")
    where = f" in {place.module}" if place.module else ""
    asked = f"{place.operation or 'an allocation'} asked for {exact(asked_bytes)}{where}"
    return (f"Memory ran out {times(n)}, and the program went on{went_on}:{first} {asked} ({when(place)}).",)


def _out_of_memory(report: Run, shortage: Shortage) -> VerdictText:
    own, place = report.fits.own, shortage.place
    needs, there = in_gib(own.in_use_bytes), in_gib(own.room_bytes)
    headline = f"Out of memory on {report.gpu}: needs at least {needs} GiB, has {there} GiB"
    if own.in_use_bytes <= own.room_bytes:
        needs = f"needs at least {needs} of {there} GiB"
        headline = f"Out of memory on {report.gpu}: {needs}, and no free piece is large enough"
    pieces = shortage.free_pieces
    free = f"The driver had {short(shortage.driver_bytes)}"
    if shortage.cached_bytes:
        largest = f", in pieces of {short(pieces[0])} at most" if pieces else ""
        free += f", and {short(shortage.cached_bytes)} of what was reserved were free{largest}"
    where = f" in {place.module}" if place.module else ""
    line = f" ({report.line_names.of(place.line)})" if place.line and report.line_names else ""
    reasons = [
        f"It ran out {at(place)}: {place.operation or 'an allocation'} asked for {short(shortage.asked_bytes)}{where}"
        f"{line}. {free}.",
    ]
    if more := answer.second_step(report):
        reasons.append(more)
    if sentence := own.doubt.sentence:
        reasons.append(f"{sentence} {answer.NOT_ALL}")
    earlier = f"{before[0][:-1]}; then it ran out for good." if (before := survived(report)) else ""
    reasons += [*filter(None, [earlier]), *grows(report)]
    return VerdictText(False, headline, tuple(reasons))


def when(place: Place) -> str:
    """A step and phase; of what no step has ended yet, that."""
    return place.when if place.step else f"{place.when}, before the first step ended"


def at(place: Place) -> str:
    """The same within a sentence."""
    return place.at if place.step else f"{place.at}, before the first step ended"


def _cut_up(found: Verdict) -> str:
    return f"Memory runs out {found.runs_out}: what is in use at once would fit, but not in the pieces that are free."

"""A report's verdict, in text as on its page: whether the program fits where it ran, and what must be said beside."""

from dataclasses import dataclass, replace

from every_byte.ledger.ledger import Ledger
from every_byte.ledger.running import running
from every_byte.palette import Category
from every_byte.report.fits import Verdict, settings_of
from every_byte.report.notes import not_counted, without_compiler
from every_byte.report.place import Place
from every_byte.report.run import Run
from every_byte.report.shortage import Shortage
from every_byte.units import exact, short

from . import facts

_IN_ONE_PIECE = (
    "try --settings expandable_segments:True here, and PYTORCH_ALLOC_CONF=expandable_segments:True on a card"
)
_NOT_ALL = "What the program asks for after it is not known, and may not fit."
_TO_READ = "chapter 7 of the book says what takes less"
NOTHING = (
    "No tensor was ever made on the GPU. As a rule the program chose the CPU: it asked for a device by another name, "
    "or left before it had one; or it works in processes of its own, which are not followed."
)


@dataclass(frozen=True)
class VerdictText:
    """A verdict: whether it is good (None: there is none), a headline without a stop, and sentences."""

    is_good: bool | None
    headline: str
    reasons: tuple[str, ...] = ()


def verdict(report: Run) -> VerdictText:
    """Whether it fits where it ran, and with how much to spare; what was not compiled is said first."""
    said = _verdict(report)
    beside = without_compiler(report.trace)
    return replace(said, headline=f"{said.headline} ({beside})") if beside else said


def _verdict(report: Run) -> VerdictText:
    if report.is_empty:
        return _of_nothing(report)
    if report.fatal:
        return _out_of_memory(report, report.fatal)
    if report.origin == "measured":
        spare = report.room_bytes - report.peak_reserved_bytes
        reasons = *survived(report), *grows(report)
        return VerdictText(
            None if report.growth else True, f"It ran on {report.gpu}: {exact(spare)} were never reserved", reasons
        )
    if report.exit_code and not report.steps:
        spare = report.fits.own.room_bytes - report.peak_reserved_bytes
        reason = f"PyTorch reserved {exact(report.peak_reserved_bytes)} until then, and {exact(spare)} were left."
        headline = f"It ended on {report.gpu} before its first step was done"
        return VerdictText(None, headline, (*survived(report), reason))
    own = report.fits.own
    if not own.fits:
        reasons = *survived(report), _cut_up(own), *grows(report), *_not_run(report)
        return VerdictText(False, f"It ran on {report.gpu}, but does not fit for long", reasons)
    return _that_fits(report, own)


def _of_nothing(report: Run) -> VerdictText:
    if not report.exit_code:
        return VerdictText(None, f"Nothing was allocated on {report.gpu}", (NOTHING,))
    by = facts.ended(report).removeprefix(": ").strip()
    reason = f"What ended it: {by}. What it would have taken is not known."
    return VerdictText(None, f"It ended before anything was allocated on {report.gpu}", (reason,))


def _that_fits(report: Run, own: Verdict) -> VerdictText:
    needed = max(own.needed_bytes, report.peak_reserved_bytes)
    more = f", and with more steps {exact(needed)}" if needed > report.peak_reserved_bytes else ""
    reserved = f"PyTorch reserved {exact(report.peak_reserved_bytes)} at most{more}"
    reasons = [f"{reserved}, of {exact(own.room_bytes)} that there are for it."]
    if own.n_retries:
        reasons.append(f"It is tight: to make room, unused segments went back to the driver {times(own.n_retries)}.")
    spare = f"{exact(own.room_bytes - needed)} to spare{own.doubt.headline}"
    beside = f", {unknown}, which is not known" if (unknown := not_counted(report.trace)) else ""
    if report.growth:
        headline = f"Fits on {report.gpu} up to step {report.growth.step}, and grows: {spare} then{beside}"
    else:
        headline = f"Fits on {report.gpu}: {spare}{beside}"
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
        f"{where} ({facts.what(owner)}){'' if report.ran_out else then}.",
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
    own = report.fits.own
    asked = f"{shortage.place.operation or 'An allocation'} asked for {exact(shortage.asked_bytes)}"
    where = f" in {shortage.place.module}" if shortage.place.module else ""
    where += facts.at_line(report, shortage.place.line).replace(",", " at", 1)
    pieces = shortage.free_pieces
    largest = f", in one piece no more than {exact(pieces[0])}" if pieces else ""
    reasons = [
        f"{asked}{where}. {exact(shortage.driver_bytes)} were left to the driver, and {exact(shortage.cached_bytes)} "
        f"were free in segments{largest}.",
        f"It had {exact(shortage.allocated_bytes)} in use. Up to this request it needs at least "
        f"{exact(own.in_use_bytes)} at once, without slack, and {exact(own.needed_bytes)} of segments where "
        f"there is room for all; here there are {exact(shortage.room_bytes)}.",
    ]  # fmt: skip
    is_expandable = settings_of(report.trace).expandable_segments  # the advice was taken already
    if more := _as_the_first_step(report, shortage):
        reasons.append(more)
    elif shortage.cached_bytes + shortage.driver_bytes >= shortage.asked_bytes and not is_expandable:
        reasons.append(f"For this request all that is free would be enough, in one piece: {_IN_ONE_PIECE}. {_NOT_ALL}")
    if sentence := own.doubt.sentence:
        reasons.append(f"{sentence} {_NOT_ALL}")
    earlier = f"{before[0][:-1]}; then it ran out for good." if (before := survived(report)) else ""
    reasons += [*filter(None, [earlier]), *grows(report)]
    return VerdictText(False, f"Out of memory on {report.gpu}: {when(shortage.place)}", tuple(reasons))


def _as_the_first_step(report: Run, shortage: Shortage) -> str:
    """That a second step like the first has no room, because of the state that the first one made; else nothing.

    Counts: of the first step backward and the optimizer, which nothing that happens once before training has.
    """
    if len(report.steps) != 1:
        return ""
    trace = report.trace
    most, position = 0, 0
    for i, (event, now) in enumerate(running(trace.events[: report.steps[0].end]), start=1):
        if event.phase in ("backward", "step") and now.allocated_bytes >= most:
            most, position = now.allocated_bytes, i
    before = Ledger.at(trace, position)
    state_bytes = shortage.ledger.parts.get(Category.OPTIMIZER_STATE, 0) - before.parts.get(Category.OPTIMIZER_STATE, 0)
    needed_bytes = most + state_bytes
    if state_bytes <= 0 or needed_bytes <= shortage.room_bytes:
        return ""
    needed, there = short(needed_bytes), short(shortage.room_bytes)
    return (
        f"From backward on, step 1 had {exact(most)} in use at most, and {exact(state_bytes)} more of optimizer state "
        f"are there since then. A second step like it needs some {needed}, and there are {there}: larger free pieces "
        f"alone do not help, and {_TO_READ}."
    )


def when(place: Place) -> str:
    """A step and phase; of what no step has ended yet, that."""
    return place.when if place.step else f"{place.when}, before the first step ended"


def _cut_up(found: Verdict) -> str:
    return (
        f"Memory runs out {found.runs_out}: what is in use at once would fit, but not in the pieces that are free: "
        f"{_IN_ONE_PIECE}."
    )

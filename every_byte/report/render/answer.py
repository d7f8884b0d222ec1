"""What to do first about a run that does not fit, or hardly does: the cheapest of the changes that were tried."""

from collections.abc import Iterator

from every_byte.ledger.ledger import Ledger
from every_byte.ledger.running import running
from every_byte.palette import Category
from every_byte.report.fits import Verdict
from every_byte.report.run import Run
from every_byte.units import in_gib, short

from . import facts

EXPANDABLE = "PYTORCH_ALLOC_CONF=expandable_segments:True"
_TO_READ = "chapter 7 of the book says what takes less"
NOT_ALL = "What the program asks for after it is not known, and may not fit."


def first(report: Run) -> Iterator[str]:
    """What to do first, a sentence or two each; nothing where it fits with room to spare.

    Counts: what the choice of kernels says; what was replayed, allocation by allocation, on the same GPU with another
            setting, or on another GPU.
    """
    if not report.is_empty:
        yield from facts.remarks(report)
    if report.origin == "measured" or report.is_empty or report.survived and not report.fatal:
        return
    found = report.with_expandable
    if found is not None and found.fits and not second_step(report):
        yield from filter(None, [_expandable(report, found)])
    elif report.fatal:
        yield from _larger(report)


def _expandable(report: Run, found: Verdict) -> str:
    if report.fatal:
        return f"With {EXPANDABLE} this request finds room, as a replay shows. {NOT_ALL}"
    needs = f"needs {in_gib(found.needed_bytes)} of {in_gib(found.room_bytes)} GiB"
    own = report.fits.own
    if not own.fits:
        return f"With {EXPANDABLE} it fits: {needs}, as a replay of {_steps(report)} shows."
    if found.needed_bytes < own.needed_bytes or found.n_retries < own.n_retries:
        return f"It is tight. With {EXPANDABLE} it {needs}, as a replay of {_steps(report)} shows."
    return ""


def _steps(report: Run) -> str:
    return "its steps" if report.steps else "what it asked for"


def _larger(report: Run) -> Iterator[str]:
    """The smallest GPU on which what it asked for up to the refusal has room."""
    room = [one for one in report.fits.verdicts[1:] if one.fits]
    if not room:
        return
    least, own = min(room, key=lambda one: one.room_bytes), report.fits.own
    no_setting = "No setting of the allocator makes room for it. " if own.in_use_bytes > own.room_bytes else ""
    whole = f"--gpu {least.gpu}" if report.command else f'gpu="{least.gpu}"'
    yield (
        f"{no_setting}The smallest GPU on which this request finds room is {least.gpu}, as a replay shows; {whole} "
        "shows whether the rest does."
    )


def second_step(report: Run) -> str:
    """That a second step like the first has no room, because of the state that the first one made; else nothing.

    Counts: of the first step backward and the optimizer, which nothing that happens once before training has.
    """
    shortage = report.fatal
    if len(report.steps) != 1 or shortage is None:
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
        f"From backward on, step 1 had {short(most)} in use at most, and {short(state_bytes)} more of optimizer state "
        f"are there since then. A second step like it needs some {needed}, and there are {there}: larger free pieces "
        f"alone do not help, and {_TO_READ}."
    )

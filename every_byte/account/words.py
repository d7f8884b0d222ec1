"""What a report says, in text as on its page: the verdict, the facts, on which GPUs it fits, and how exact that is."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from every_byte.units import exact, short

from .fits import Verdict
from .owners import Owner
from .steps import turns_of
from .where import Place

if TYPE_CHECKING:
    from .report import Report

_IN_ONE_PIECE = (
    "try --settings expandable_segments:True here, and PYTORCH_ALLOC_CONF=expandable_segments:True on a card"
)
NOTHING = (
    "No tensor was ever made on the GPU. As a rule the program chose the CPU: it asked for a device by another name, "
    "or left before it had one; or it works in processes of its own, which are not followed."
)
ANOTHER = (
    "* By the requests of {gpu}: of another architecture, it takes other workspaces and kernels; `--gpu NAME` gives "
    "its own."
)


_LONGEST = 160  # characters of an error


@dataclass(frozen=True)
class Said:
    """A verdict: whether it is good (None: there is none), a headline without a stop, and sentences."""

    is_good: bool | None
    headline: str
    reasons: tuple[str, ...] = ()


def ran(report: "Report") -> str:
    """On what it ran and how it ended, in a line."""
    device = "" if report.spec.device_name == report.gpu else f" ({report.spec.device_name})"
    rules = f"PyTorch {report.torch_version}" + ("'s rules" if report.origin == "simulated" else "")
    took = f"; {report.seconds:,.1f} s" if report.seconds else ""
    return f"{report.origin.capitalize()} on {report.gpu}{device}, {rules}{ended(report)}{took}."


def ended(report: "Report") -> str:
    """How it ended: of an error one line; that of memory, which the verdict explains, by its name alone."""
    said = " ".join(report.ended.split()).rstrip(".")
    if report.ran_out and ":" in said:
        said = said.split(":")[0]
    said = said if len(said) <= _LONGEST else f"{said[: _LONGEST - 1]}…"
    code = f" (exit code {report.exit_code})" if report.exit_code else ""
    return f": {said}{code}" if said else code


def verdict(report: "Report") -> Said:
    """Whether it fits where it ran, and with how much to spare."""
    if report.is_empty:
        return Said(None, f"Nothing was allocated on {report.gpu}", (NOTHING,))
    if report.ran_out:
        return _out_of_memory(report)
    if report.origin == "measured":
        spare = report.room_bytes - report.peak_reserved_bytes
        return Said(True, f"It ran on {report.gpu}: {exact(spare)} were never reserved", survived(report))
    if report.exit_code and not report.steps:
        spare = report.fits.own.room_bytes - report.peak_reserved_bytes
        reason = f"PyTorch reserved {exact(report.peak_reserved_bytes)} until then, and {exact(spare)} were left."
        headline = f"It ended on {report.gpu} before its first step was done"
        return Said(None, headline, (*survived(report), reason))
    own = report.fits.own
    needed = max(own.needed_bytes, report.peak_reserved_bytes)
    if not own.fits:
        return Said(False, f"It ran on {report.gpu}, but does not fit for long", (*survived(report), _cut_up(own)))
    more = f", and with more steps {exact(needed)}" if needed > report.peak_reserved_bytes else ""
    reserved = f"PyTorch reserved {exact(report.peak_reserved_bytes)} at most{more}"
    reasons = [f"{reserved}, of {exact(own.room_bytes)} that there are for it."]
    if own.n_retries:
        reasons.append(f"It is tight: to make room, unused segments went back to the driver {times(own.n_retries)}.")
    return Said(True, f"Fits on {report.gpu}: {exact(own.room_bytes - needed)} to spare", (*survived(report), *reasons))


def times(n: int) -> str:
    """How often: `once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(n, f"{n:,d} times")


def survived(report: "Report") -> tuple[str, ...]:
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


def _out_of_memory(report: "Report") -> Said:
    shortage = report.shortage
    asked = f"{shortage.place.operation or 'An allocation'} asked for {exact(shortage.asked_bytes)}"
    where = f" in {shortage.place.module}" if shortage.place.module else ""
    pieces = shortage.free_pieces
    largest = f", in one piece no more than {exact(pieces[0])}" if pieces else ""
    reasons = [
        f"{asked}{where}. {exact(shortage.driver_bytes)} were left to the driver, and {exact(shortage.cached_bytes)} "
        f"lay free in segments{largest}.",
        f"It had {exact(shortage.allocated_bytes)} in use: the run needs at least "
        f"{exact(shortage.allocated_bytes + shortage.asked_bytes)}, of {exact(shortage.room_bytes)} that there are.",
    ]  # fmt: skip
    if shortage.cached_bytes + shortage.driver_bytes >= shortage.asked_bytes:
        reasons.append(f"All that is free would be enough, in one piece: {_IN_ONE_PIECE}.")
    earlier = f"{before[0][:-1]}; then it ran out for good." if (before := survived(report)) else ""
    return Said(False, f"Out of memory on {report.gpu}: {when(shortage.place)}", (*reasons, *filter(None, [earlier])))


def when(place: Place) -> str:
    """A step and phase; of what no step has ended yet, that."""
    return place.when if place.step else f"{place.when}, before the first step ended"


def _cut_up(found: Verdict) -> str:
    return (
        f"Memory runs out {found.runs_out}: what is in use at once would fit, but not in the pieces that are free: "
        f"{_IN_ONE_PIECE}."
    )


def facts(report: "Report") -> Iterator[tuple[str, str]]:
    """The peaks and the room, each a name and what it is."""
    if report.is_empty:
        return
    yield "peak allocated", f"{exact(report.peak.allocated_bytes)}, {report.peak_place}"
    reserved_at = report.reserved.index(max(report.reserved)) + 1 if report.reserved else 0
    yield "peak reserved", f"{exact(report.peak_reserved_bytes)}, {report.place(reserved_at).when}"
    yield "room", room(report)


_NUMBERS = ("", "", "Two", "Three", "Four")


def turns(report: "Report") -> str:
    """That optimizers take turns, and how many steps that makes; "" where they do not."""
    n = turns_of(report.steps)
    if n < 2:
        return ""
    return (
        f"{_NUMBERS[n] if n < len(_NUMBERS) else n} optimizers stepped at different times, and each of their steps "
        f"counts as one. Where each steps once in an iteration of the loop, that is {n} steps: --steps {3 * n} runs "
        "three iterations."
    )


def room(report: "Report") -> str:
    """How much there is for segments, and what that assumes."""
    there = exact(report.room_bytes)
    is_measured = report.origin == "measured"
    if report.room_bytes < (report.total_bytes if is_measured else report.spec.allocator_bytes):
        return f"{there}: the fraction of {report.total_bytes:,d} that the settings or the program allow"
    if is_measured:
        return f"{there} on the card, of which the CUDA context and other programs take some"
    return f"{there}: {report.spec.total_bytes:,d} less {report.spec.context_bytes:,d} assumed for the CUDA context"


def fits(report: "Report") -> Iterator[str]:
    """On which GPUs it fits, a line each for those and for the others, and what that is of."""
    found = report.fits
    good = [f"{_starred(one)} ({spare(one)})" for one in found.verdicts if one.fits]
    bad = [f"{_starred(one)} ({spare(one)})" for one in found.verdicts if not one.fits]
    yield f"Replayed: {found.basis}."
    if good:
        yield f"{'Gets at least that far on' if found.is_partial else 'Fits on'} {', '.join(good)}."
    if bad:
        yield f"Does not fit on {', '.join(bad)}."
    if not all(one.is_alike for one in found.verdicts):
        yield ANOTHER.format(gpu=report.gpu)


def _starred(found: Verdict) -> str:
    return found.gpu if found.is_alike else f"{found.gpu}*"


def spare(found: Verdict) -> str:
    """What is to spare or missing, in short."""
    if found.fits:
        return f"{short(found.margin_bytes)} to spare"
    if found.is_cut_up:
        return "cut up: no free piece is large enough"
    return f"{short(-found.margin_bytes)} short at least"


def exactness(report: "Report", where: str = "above") -> str:
    """How far the figures can be trusted, in a sentence or two; `where` are the notes that it speaks of."""
    if report.origin == "measured":
        return f"Measured: every figure is what PyTorch {report.torch_version} counted on this GPU."
    if report.is_exact:
        return (
            f"Simulated, to the byte by the rules of PyTorch {report.torch_version}'s CUDA build: all that ran is "
            "modelled. The size of the CUDA context is an assumption."
        )
    if report.only_read:
        return (
            f"Simulated, to the byte by the rules of PyTorch {report.torch_version}'s CUDA build, for a program whose "
            f"allocations do not depend on the values named {where}: all that ran is modelled. The size of the CUDA "
            "context is an assumption."
        )
    return (
        f"Simulated by the rules of PyTorch {report.torch_version}'s CUDA build, and not exact: what is named {where} "
        "is not known. The size of the CUDA context is an assumption."
    )


def module(path: str, is_own: bool) -> str:
    """The name of a part of the tree of modules."""
    return path or ("the outermost module, or none" if is_own else "all")


def what(owner: Owner) -> str:
    """What an owner is, with shape and type as far as they are known."""
    return f"{owner.what}, {owner.about}" if owner.about else owner.what


def percent(part: int, whole: int) -> str:
    """A share of the whole; what is less than half a percent says so."""
    share = 100 * part / whole if whole else 0
    return "< 1 %" if 0 < share < 0.5 else f"{share:.0f} %"

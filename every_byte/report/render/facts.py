"""What a report says beside its verdict, as text and on its page: the facts, where it fits, how exact that is."""

from collections.abc import Iterator
from typing import Any

from every_byte.gpu.evidence import is_recorded
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.ledger.plain_attention import PlainAttention
from every_byte.ledger.source_lines import Line
from every_byte.report.findings import findings_of
from every_byte.report.owners import Owner
from every_byte.report.run import Run
from every_byte.report.steps import turns_of
from every_byte.report.unused_results import unused_results
from every_byte.units import exact

from . import gpus

ANOTHER = (
    "* By the requests of {gpu}. Of another architecture, it takes other workspaces and kernels; another kernel of "
    "attention can be gigabytes more or less. `{option}` gives its own."
)
GOES_ON = (
    "On which other GPUs it fits is not told: the program goes on where memory runs out, and so does something else on "
    "a card with other memory; run it with --gpu NAME for each."
)
_LONGEST = 160  # characters of an error


def ran(report: Run) -> str:
    """On what it ran and how it ended, in a line."""
    device = "" if report.spec.device_name == report.gpu else f" ({report.spec.device_name})"
    rules = f"PyTorch {report.torch_version}"
    if report.origin == "simulated":
        rules += f"'s rules{kernels(report.spec)}"
    rank = f", rank {report.rank[0]} of {report.rank[1]}" if report.rank else ""
    took = f"; {report.seconds:,.1f} s" if report.seconds else ""
    return f"{report.origin.capitalize()} on {report.gpu}{device}{rank}, {rules}{ended(report)}{took}."


def ended(report: Run) -> str:
    """How it ended: of an error one line; that of memory, which the verdict explains, by its name alone."""
    said = " ".join(report.ended.split()).rstrip(".")
    if report.ran_out and ":" in said:
        said = said.split(":")[0]
    said = said if len(said) <= _LONGEST else f"{said[: _LONGEST - 1]}…"
    code = f" (exit code {report.exit_code})" if report.exit_code else ""
    return f": {said}{code}" if said else code


def peaks(report: Run) -> Iterator[tuple[str, str]]:
    """The peaks and the room, each a name and what it is."""
    if report.is_empty:
        return
    line = at_line(report, report.peak_place.line)
    yield "peak allocated", f"{exact(report.peak.allocated_bytes)}, {report.peak_place}{line}"
    reserved_at = report.reserved.index(max(report.reserved)) + 1 if report.reserved else 0
    more = more_steps(report)
    yield "peak reserved", f"{exact(report.peak_reserved_bytes)}, {report.place(reserved_at).when}{more}"
    yield "room", room(report)


def more_steps(report: Run) -> str:
    """What segments take with more steps, where that is more: "; with more steps 1,024 bytes (1 KiB)"."""
    if report.origin == "measured" or report.ended_early or report.ran_out:
        return ""
    own = report.fits.own
    is_more = own.fits and own.needed_bytes > report.peak_reserved_bytes
    return f"; with more steps {exact(own.needed_bytes)}" if is_more else ""


def request(report: Run) -> Iterator[tuple[str, str]]:
    """The request for which there was no room, each a name and its bytes; nothing where there was room for all."""
    shortage = report.fatal
    if shortage is None:
        return
    own, pieces = report.fits.own, shortage.free_pieces
    largest = f", in pieces of {exact(pieces[0])} at most" if pieces else ""
    yield "asked for", exact(shortage.asked_bytes)
    yield "driver has", exact(shortage.driver_bytes)
    yield "reserved, free", f"{exact(shortage.cached_bytes)}{largest}"
    yield "in use", exact(shortage.allocated_bytes)
    yield "needed at once", f"{exact(own.in_use_bytes)} up to this request, without slack"
    yield "segments need", f"{exact(own.needed_bytes)} where there is room for all"


def kernels(spec: GPUSpec) -> str:
    """Behind the name of the rules: that no build runs there, or for which older architecture kernels are compiled.

    Nothing where a card of the same architecture was recorded.
    """
    if spec.compiled_for is None:
        return ", which no build on PyPI runs on this card"
    if spec.compiled_for == spec.capability or is_recorded(spec):
        return ""
    capability, older = (".".join(map(str, one)) for one in (spec.capability, spec.compiled_for))
    return f" with the kernels for compute capability {older}, the nearest to its {capability}"


_NUMBERS = ("", "", "Two", "Three", "Four")


def turns(report: Run) -> str:
    """That optimizers take turns, and how many steps that makes; "" where they do not."""
    n = turns_of(report.steps)
    if n < 2:
        return ""
    return (
        f"{_NUMBERS[n] if n < len(_NUMBERS) else n} optimizers stepped at different times, and each of their steps "
        f"counts as one. Where each steps once in an iteration of the loop, that is {n} steps: --steps {3 * n} runs "
        "three iterations."
    )


def room(report: Run) -> str:
    """How much there is for segments, and what that assumes."""
    there = exact(report.room_bytes)
    is_measured = report.origin == "measured"
    if report.room_bytes < (report.total_bytes if is_measured else report.spec.allocator_bytes):
        return f"{there}: the fraction of {report.total_bytes:,d} that the settings or the program allow"
    if is_measured:
        return f"{there} on the card, of which the CUDA context and other programs take some"
    spec = report.spec
    return f"{there}: {spec.total_bytes:,d} less {spec.context_bytes:,d} {spec.context_said} for the CUDA context"


def fits(report: Run) -> Iterator[str]:
    """What that is of, and around which size of card it fits, a line each for those and for the others."""
    if report.survived:
        yield GOES_ON
        return
    found = report.fits
    yield f"Replayed: {found.basis}."
    yield from gpus.lines(found, report.growth.step if report.growth else 0)
    if not all(one.is_alike for one in found.verdicts):
        yield another(report)


def another(report: Run) -> str:
    """What the star at a GPU's name means."""
    return ANOTHER.format(gpu=report.gpu, option="--gpu NAME" if report.command else 'gpu="NAME"')


_MOST_UNFUSED = 2
_SMALL = 100  # what is less than so much of the peak is not worth a sentence


def remarks(report: Run) -> list[str]:
    """Waste that one line of the program ends: not what is less than a hundredth of the peak."""
    return [*_unfused(report), *_unused(report), *(finding.sentence for finding in findings_of(report))]


def _unused(report: Run) -> list[str]:
    """Of what compiled code returns beside the loss, the largest."""
    largest = next(iter(unused_results(report.trace)), None)
    if largest is None or largest.n_bytes * _SMALL < report.peak.allocated_bytes:
        return []
    return [
        f"What is compiled returns {exact(largest.n_bytes)} beside the loss, as logits are. Backward is given a "
        "gradient for them too, as many bytes of zeros, and can't write over their own. Compile a function that "
        "returns the loss alone: torch.compile(lambda *args: model(*args)[1])."
    ]


def _unfused(report: Run) -> list[str]:
    """Of attention that no fused kernel took, of each kind the largest."""
    kinds: dict[tuple[Any, ...], list[PlainAttention]] = {}
    for one in sorted(report.trace.notes.unfused, key=lambda one: (-one.n_bytes, not one.is_kept)):
        if one.n_bytes * _SMALL >= report.peak.allocated_bytes:
            kinds.setdefault(one.kind, []).append(one)
    return [_plain_attention(largest, len(smaller)) for largest, *smaller in list(kinds.values())[:_MOST_UNFUSED]]


def _plain_attention(one: PlainAttention, n_smaller: int) -> str:
    masked = " with a mask" if one.has_mask else ""
    kept = ", and kept for backward" if one.is_kept else ""
    others = f" So it is with {n_smaller:,d} smaller one{'s' * (n_smaller > 1)}." if n_smaller else ""
    queries = f"{one.of_type} queries {list(one.queries)}{masked} on {one.gpu}"
    scores = f"ll scores, {list(one.scores)} of {one.scores_of_type}, {exact(one.n_bytes)}, are computed{kept}.{others}"
    if one.helps:
        return f"Compute attention {one.helps}: then a fused kernel takes it. As it is, none takes {queries}: a{scores}"
    return f"No fused kernel of attention that PyTorch tries takes {queries}. A{scores}"


def at_line(report: Run, line: Line | None) -> str:
    """What a sentence says of a line after the place in the run: ", train.py:41"; "" where it is not known."""
    return f", {report.line_names.of(line)}" if line is not None and report.line_names else ""


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

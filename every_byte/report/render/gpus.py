"""Which of the GPUs that are known a report names in its text, and how: those around the size that a run needs."""

import re
from collections.abc import Iterator, Sequence

from every_byte.gpu.memory.specs import EXPLORED
from every_byte.report.fits import Fits, Verdict
from every_byte.units import short

_SIZES = 4  # that are named on either side


def named(found: Fits, *, fit: bool) -> tuple[list[Verdict], int]:
    """The GPUs on which it fits, or does not, that a text names, and how many more there are.

    The run's own comes first. Then, of each of the sizes next to what is needed, one card: of the run's own
    architecture if there is one, else one that was recorded.
    """
    own = [one for one in (found.own,) if one.fits == fit]
    others = sorted((one for one in found.verdicts[1:] if one.fits == fit), key=_room, reverse=not fit)
    of_size: dict[str, Verdict] = {}
    for one in others:
        size = _size(one)
        if size not in of_size and len(of_size) == _SIZES:
            continue
        of_size[size] = max(of_size.get(size, one), one, key=lambda one: (one.is_alike, one.gpu in EXPLORED))
    shown = [*own, *of_size.values()]
    return shown, len(own) + len(others) - len(shown)


def _room(found: Verdict) -> int:
    return found.room_bytes


def _size(found: Verdict) -> str:
    """The size that a card is sold with; its name, of another one."""
    sold = re.search(r"-(\d+gb)$", found.gpu)
    return sold[1] if sold else found.gpu


def lines(found: Fits, up_to_step: int = 0) -> Iterator[str]:
    """Those on which it fits, and those on which it does not, a sentence each; `up_to_step` of a run that grows."""
    good, bad = named(found, fit=True), named(found, fit=False)
    if good[0]:
        fit = "Gets at least that far on" if found.is_partial else "Fits on"
        until = f"Up to step {up_to_step}: {fit[0].lower()}{fit[1:]}" if up_to_step else fit
        yield f"{until} {_listed(*good)}."
    if bad[0]:
        yield f"Does not fit on {_listed(*bad)}."


def _listed(shown: Sequence[Verdict], n_more: int) -> str:
    listed = ", ".join(f"{starred(one)} ({spare(one)})" for one in shown)
    return f"{listed} and {n_more} more" if n_more else listed


def starred(found: Verdict) -> str:
    """Its name, with a star if it is of another architecture than the run's own."""
    return found.gpu if found.is_alike else f"{found.gpu}*"


def spare(found: Verdict) -> str:
    """What is to spare or missing, in short: from what is in use at once to what segments take with room for all."""
    if found.fits:
        perhaps = ", perhaps" if found.doubt.headline else ""
        return f"{short(found.margin_bytes)} to spare{perhaps}"
    if found.is_cut_up:
        return "cut up: no free piece is large enough"
    least, most = short(-found.margin_bytes), short(found.needed_bytes - found.room_bytes)
    return f"{least} short" if least == most else f"{least} to {most} short"

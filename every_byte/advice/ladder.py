"""Remedies on top of one another: the best two, further ones until the budget is met, and no more parts than that."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from .remedy import Remedy, S
from .runs import Ran

MOST_PARTNERS = 3
Run: TypeAlias = Callable[[tuple[Remedy[S], ...]], Ran[S] | None]


def pairs(singles: list[Ran[S]], run: Run[S]) -> list[Ran[S]]:
    """The remedy that saves most, with each of those that save most beside it."""
    helpful = _helpful(singles)
    return [ran for other in _partners(helpful) if (ran := run((helpful[0].remedies[0], other)))]


def ladder(plain: Ran[S], singles: list[Ran[S]], run: Run[S]) -> Iterator[Ran[S]]:
    """From the best pair on, one remedy more at a time, until it fits or nothing is left that saves.

    First come those that leave training's numbers as they are, each in order of what it saves alone; what waits for
    the host comes after all others, and settings last.
    """
    helpful = _helpful([ran for ran in singles if ran.peak_bytes < plain.peak_bytes])
    helpful += [ran for ran in singles if ran.remedies[0].kind == "settings"]
    now: tuple[Remedy[S], ...] = ()
    below = plain
    for ran in sorted(helpful, key=_turn):
        (remedy,) = ran.remedies
        if below.fits or not remedy.goes_with(now):
            continue
        found = ran if not now else run((*now, remedy))
        if found is not None and _is_less(found, below):
            now, below = found.remedies, found
            yield found


def in_fewer_parts(best: Ran[S], singles: list[Ran[S]], run: Run[S]) -> Iterator[Ran[S]]:
    """Several remedies with a batch in parts, again in fewer of them: from the fewest on, until it fits."""
    of_single = [ran.remedies[0] for ran in singles]
    for parted in best.remedies if len(best.remedies) > 1 else ():
        fewer = [one for one in of_single if one.kind == parted.kind and one.multiple_of < parted.multiple_of]
        for remedy in sorted(fewer, key=lambda one: one.multiple_of):
            found = run(tuple(remedy if one is parted else one for one in best.remedies))
            if found is not None:
                yield found
            if found is not None and found.fits:
                break


def _is_less(found: Ran[S], than: Ran[S]) -> bool:
    if found.remedies[-1].kind == "settings":
        return found.needed_bytes < than.needed_bytes
    return found.peak_bytes < than.peak_bytes


def _turn(ran: Ran[S]) -> tuple[bool, bool, bool]:
    (remedy,) = ran.remedies
    return remedy.kind == "settings", remedy.waits, not ran.keeps_values


def _helpful(singles: list[Ran[S]]) -> list[Ran[S]]:
    """Those of one remedy, from the one that saves most on, what waits for the host last; settings change no peak."""
    found = [ran for ran in singles if ran.remedies[0].kind != "settings"]
    return sorted(found, key=lambda ran: (ran.remedies[0].waits, ran.peak_bytes))


def _partners(helpful: list[Ran[S]]) -> list[Remedy[S]]:
    if not helpful:
        return []
    (best,) = helpful[0].remedies
    return [ran.remedies[0] for ran in helpful[1:] if ran.remedies[0].goes_with((best,))][:MOST_PARTNERS]

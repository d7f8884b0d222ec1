"""What each allocation of a trace is, and how many bytes each category has after every event."""

from collections import defaultdict

from every_byte.palette import Category
from every_byte.units import exact

from .attribution import NEVER, Attribution
from .events import NO_ALLOCATION, Event
from .trace import Trace


def categories_of(trace: Trace) -> dict[int, str]:
    """One category for each allocation, by its number: what it is first, from when it was made on."""
    attribution = trace.attribution()
    return {number: attribution.category(number, at + 1) for number, at in attribution.made_at.items()}


def levels(trace: Trace, *, found: bool = True) -> list[dict[str, int]]:
    """The bytes of each category after every event of a trace, marks too; the first entry is before all of them.

    An allocation may change its category while it lives: what autograd let go of and a program still holds.

    Counts: requested bytes, and "slack" where the trace knows whole blocks; with `found=False` without what was there
            when the trace began.
    Unit:   bytes.
    Raises: RuntimeError if, after any event, they do not add up to what the allocator's own counters say.
    """
    attribution = trace.attribution()
    turns = _turns(attribution)
    theirs: defaultdict[str, int] = defaultdict(int)
    ours: defaultdict[str, int] = defaultdict(int)
    n_found = trace.n_found
    what: dict[int, str] = {}
    result: list[dict[str, int]] = [{}]
    for position, event in enumerate(trace.events, start=1):
        if event.allocation != NO_ALLOCATION:
            _apply(event, position, attribution, theirs if event.allocation < n_found else ours, what)
        for number in turns.get(position, ()):
            if number in what:
                now, n_bytes = theirs if number < n_found else ours, attribution.made[number].n_bytes
                now[what[number]] -= n_bytes
                what[number] = attribution.category(number, position)
                now[what[number]] += n_bytes
        whole = _sum(theirs, ours) if n_found else ours
        _check(trace, event, position, whole)
        result.append({name: n_bytes for name, n_bytes in (whole if found else ours).items() if n_bytes})
    return result


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def _turns(attribution: Attribution) -> dict[int, list[int]]:
    """At which position which allocations become something else."""
    turns: dict[int, list[int]] = defaultdict(list)
    for number in attribution.made_at:
        until = attribution.kept_until(number)
        if 0 < until < NEVER:
            turns[until].append(number)
    return turns


def _apply(event: Event, position: int, attribution: Attribution, now: dict[str, int], what: dict[int, str]) -> None:
    if event.action == "alloc":
        what[event.allocation] = attribution.category(event.allocation, position)
        sign = 1
    elif event.action == "free" and event.allocation in what:
        event, sign = attribution.made[event.allocation], -1
    else:
        return
    name = what[event.allocation] if sign > 0 else what.pop(event.allocation)
    now[name] += sign * event.n_bytes
    now["slack"] += sign * (event.block_bytes - event.n_bytes if event.block_bytes else 0)


def _check(trace: Trace, event: Event, position: int, level: dict[str, int]) -> None:
    counted = event.allocated_bytes if event.block_bytes else event.requested_bytes
    found = sum(level.values()) - (0 if event.block_bytes else level.get(Category.SLACK, 0))
    if counted is not None and found != counted:
        raise RuntimeError(
            f"categories must add up to what the allocator counts: {trace.gpu}, after event {position}, they have "
            f"{exact(found)}, and it counts {exact(counted)}."
        )

"""The best that a checkpoint can keep in so many bytes: the choice of calls that leaves the least to compute again.

Selective checkpointing runs a region's Python code again, from its start until backward has all that it needs, and a
kept call returns what it made. So each call costs what it costs, kept or not, whatever is kept around it: a knapsack,
in which calls that made views of one storage share its bytes.

    minimise   sum over calls that run again of cost[i] * (1 - keep[i])
    such that  sum over storages of bytes[j] * held[j] <= budget,     held[j] >= keep[i] where call i made storage j,
               and random calls are kept from the last one on (policies.reason_against).

It is solved in whole numbers: call after call, all choices are followed that no other beats in both, bytes and cost.
Calls that are equal in both, as those of equal blocks, are counted and not told apart: n of them are decided on as 1,
2, 4 ... at once, and the last ones are kept. Within a budget, the call that spares most for its bytes comes first, and
a choice is followed no further if what could at best come of it, calls kept in part, is worse than what is known.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import chain, combinations
from operator import itemgetter
from typing import Any, Generic, TypeAlias, TypeVar

from .operations import Operation, Region
from .policies import Plan, changed_later

Chosen = TypeVar("Chosen")
# Bytes and cost of one way to choose, and what it chose; the last choice of a longer way refers to the one before.
_Choice: TypeAlias = tuple[int, int, tuple[Chosen, ...]]
_Last: TypeAlias = tuple[Any, tuple[Chosen, ...]] | None  # Any: a _Last again, which cannot name itself
_Way: TypeAlias = tuple[int, int, _Last[Chosen]]
_Some: TypeAlias = tuple[list[tuple[int, ...]], int]  # groups of calls, and how many of them are kept, from the last
_VERY_MANY = 1 << 60


def optimal(region: Region, budget_bytes: int, *, flops_per_byte: int = 0) -> Plan:
    """The plan that holds at most `budget_bytes` and leaves the least to compute again.

    The least means FLOPs, plus `flops_per_byte` for each byte moved (the FLOPs that a GPU can do meanwhile; 0 counts
    FLOPs alone). Among equal plans it takes the one that moves the fewest bytes, then the one that holds the fewest.

    Unit:   bytes as requested, of one region, besides its inputs and outputs.
    Raises: ValueError for a negative budget or flops_per_byte.
    """
    _check(budget_bytes=budget_bytes, flops_per_byte=flops_per_byte)
    chosen = _best(_equal_as_one(_decisions(region, flops_per_byte)), budget_bytes)
    return Plan(region, _kept(chosen))


def frontier(region: Region, *, flops_per_byte: int = 0) -> list[Plan]:
    """All plans that no other beats in both, bytes held and cost: from the fewest bytes to the least cost.

    Unit:   as `optimal`.
    Raises: ValueError for a negative flops_per_byte.
    """
    _check(flops_per_byte=flops_per_byte)
    plans: list[Plan] = []
    for _, _, chosen in _unbeaten(_equal_as_one(_decisions(region, flops_per_byte))):
        plan = Plan(region, _kept(chosen))
        if not plans or _cost(plan, flops_per_byte) < _cost(plans[-1], flops_per_byte):
            plans.append(plan)  # else it moves fewer bytes for more that are held, at the same cost
    return plans


def mixtures(plans: Iterable[Plan], n: int) -> list[tuple[Plan, ...]]:
    """All ways to give n equal regions one of these plans each that no other way beats in both, bytes and FLOPs.

    One plan for all of them is rarely the best: between two plans there are n - 1 steps.

    Raises: ValueError for an n that is no positive integer.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"n must be a positive integer: got n={n!r}.")
    one_region: list[_Choice[Plan]] = [(plan.kept_bytes, plan.flops, (plan,)) for plan in plans]
    return [chosen for _, _, chosen in _unbeaten([one_region] * n)]


def _unbeaten(decisions: Iterable[list[_Choice[Chosen]]]) -> list[_Choice[Chosen]]:
    """One choice for each decision, in all ways that no other way beats, from the fewest bytes to the least cost."""
    ways: list[_Way[Chosen]] = [(0, 0, None)]
    for choices in decisions:
        ways = _longer(ways, choices)
    return [(held, cost, _chosen(last)) for held, cost, last in ways]


def _longer(ways: list[_Way[Chosen]], choices: list[_Choice[Chosen]]) -> list[_Way[Chosen]]:
    """All ways with one more choice that no other beats, from the fewest bytes on.

    Of two that are equal in both it is the one that held less before.
    """
    longer: list[_Way[Chosen]] = [
        (held + more, cost + extra, (last, chosen) if chosen else last)
        for more, extra, chosen in sorted(choices, key=itemgetter(0), reverse=True)
        for held, cost, last in ways
    ]
    longer.sort(key=itemgetter(0, 1))
    least: int | None = None
    unbeaten = []
    for way in longer:
        if least is None or way[1] < least:
            unbeaten.append(way)
            least = way[1]
    return unbeaten


def _best(decisions: Iterable[list[_Choice[Chosen]]], budget_bytes: int) -> tuple[Chosen, ...]:
    """What is chosen in the way of least cost that holds at most so many bytes; of equal ones that of the fewest."""
    decisions = sorted(decisions, key=_spared_by_a_byte, reverse=True)
    bounds = _Bounds(decisions)
    known = bounds.at_most(budget_bytes)
    ways: list[_Way[Chosen]] = [(0, 0, None)]
    for place, choices in enumerate(decisions, start=1):
        ways = [
            way
            for way in _longer(ways, choices)
            if way[0] <= budget_bytes and way[1] + bounds.at_least(place, budget_bytes - way[0]) <= known
        ]
    return _chosen(ways[-1][2])


def _spared_by_a_byte(choices: list[_Choice[Chosen]]) -> tuple[bool, Fraction]:
    """By which decisions are put in order: first those between more than two ways."""
    n_bytes, cost, _ = choices[-1]
    return len(choices) != 2, Fraction(-cost, n_bytes) if n_bytes else Fraction(-cost * _VERY_MANY)


class _Bounds(Generic[Chosen]):
    """What decisions add to the cost at least and at most, from a place in their order on, in so many bytes."""

    def __init__(self, decisions: list[list[_Choice[Chosen]]]) -> None:
        self._decisions = decisions
        self._bytes, self._cost = [0], [0]
        for choices in decisions:
            more = choices[-1][0] if len(choices) == 2 else 0
            self._bytes.append(self._bytes[-1] + more)
            self._cost.append(self._cost[-1] + min(cost for _, cost, _ in choices))

    def at_least(self, place: int, budget_bytes: int) -> int:
        """As if a call could be kept in part, and choices between more than two ways took no bytes."""
        up_to = self._bytes[place] + budget_bytes
        last = bisect_right(self._bytes, up_to) - 1
        whole = self._cost[last] - self._cost[place]
        if last == len(self._decisions):
            return whole
        n_bytes, cost, _ = self._decisions[last][-1]
        return whole + cost * (up_to - self._bytes[last]) // n_bytes

    def at_most(self, budget_bytes: int) -> int:
        """What one gets who keeps, in this order, whatever there is room for."""
        total = 0
        for choices in self._decisions:
            n_bytes, cost, _ = min((choice for choice in choices if choice[0] <= budget_bytes), key=itemgetter(1, 0))
            budget_bytes, total = budget_bytes - n_bytes, total + cost
        return total


def _chosen(last: _Last[Chosen]) -> tuple[Chosen, ...]:
    return tuple(chain.from_iterable(reversed(list(_each(last)))))


def _each(last: _Last[Chosen]) -> Iterator[tuple[Chosen, ...]]:
    """What a way has chosen, from its last decision to its first: each refers to the one before."""
    while last is not None:
        last, chosen = last
        yield chosen


def _equal_as_one(decisions: Iterable[list[_Choice[int]]]) -> Iterator[list[_Choice[_Some]]]:
    """The same decisions, but what is chosen is (calls, n): the last n of some groups of calls.

    Decisions between nothing and the same bytes and cost become one for each 1, 2, 4 ... of them.
    """
    equal: dict[tuple[tuple[int, int], ...], list[list[_Choice[int]]]] = {}
    for choices in decisions:
        equal.setdefault(tuple(choice[:2] for choice in choices), []).append(choices)
    for numbers, members in equal.items():
        if len(numbers) != 2:
            for choices in members:
                yield [(n_bytes, cost, (([kept], 1),) if kept else ()) for n_bytes, cost, kept in choices]
            continue
        (n_bytes, cost), calls = numbers[1], [choices[1][2] for choices in members]
        for n in _powers(len(members)):
            yield [(0, 0, ()), (n * n_bytes, n * cost, ((calls, n),))]


def _powers(total: int) -> list[int]:
    """Numbers of which some add up to each number up to a total, the largest first: 1, 2, 4 ... and what is left."""
    powers = [1 << i for i in range((total + 1).bit_length() - 1)]
    left = total - sum(powers)
    return sorted([*powers, *([left] if left else [])], reverse=True)


def _kept(chosen: tuple[_Some, ...]) -> frozenset[int]:
    """The calls that a way keeps."""
    groups = {id(calls): calls for calls, _ in chosen}
    n_kept: Counter[int] = Counter()
    for calls, n in chosen:
        n_kept[id(calls)] += n
    return frozenset(chain.from_iterable(chain.from_iterable(groups[key][-n:] for key, n in n_kept.items())))


def _check(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 0:
            raise ValueError(f"{name} must not be negative: got {name}={number!r}; the least is 0.")


def _cost(what: Plan | Operation, flops_per_byte: int) -> int:
    return what.flops + flops_per_byte * what.moved_bytes


def _decisions(region: Region, flops_per_byte: int) -> Iterator[list[_Choice[int]]]:
    """For each group of calls, all that may be kept of it; its cost is what that spares, as a negative number.

    Bytes moved break ties: the unit of cost is so large that all of them together are less than one.
    """
    unit = 1 + sum(call.moved_bytes for call in region.operations)
    spared = [_cost(call, flops_per_byte) * unit + call.moved_bytes for call in region.operations]
    for calls in _groups(region):
        choices = []
        for kept in _may_be_kept(region, calls):
            held: set[int] = set().union(*(region.operations[i].made for i in kept))
            n_bytes = sum(region.storage_bytes[storage] for storage in held)
            choices.append((n_bytes, -sum(spared[i] for i in kept), kept))
        yield choices


def _groups(region: Region) -> list[list[int]]:
    """The calls worth keeping, and all that draw random numbers, in groups that must be decided on together."""
    groups: dict[int, tuple[set[object], list[int]]] = {}
    last_of: dict[object, int] = {}  # of each storage, and of the draws, the number of its group
    for i, call in enumerate(region.operations):
        if _draws(call) or _is_useful(region, i):
            shared: set[object] = {*call.made, *(["draws"] if _draws(call) else [])}
            together = [groups.pop(number) for number in sorted({last_of[key] for key in shared if key in last_of})]
            groups[i] = shared.union(*(g[0] for g in together)), sorted(chain([i], *(g[1] for g in together)))
            last_of |= dict.fromkeys(groups[i][0], i)
    return [calls for _, calls in groups.values()]


def _may_be_kept(region: Region, calls: list[int]) -> Iterator[tuple[int, ...]]:
    """All ways to keep some of these calls: of those that draw random numbers the last ones."""
    draws = [i for i in calls if _draws(region.operations[i])]
    others = [i for i in calls if i not in draws]
    for first in range(len(draws), -1, -1):
        if first < len(draws) and not _is_useful(region, draws[first]):
            return
        for n in range(len(others) + 1):
            yield from (tuple(draws[first:]) + some for some in combinations(others, n))


def _draws(call: Operation) -> bool:
    return call.is_random and call.runs_again


def _is_useful(region: Region, i: int) -> bool:
    """A call that saves nothing is never worth its place; one that is changed in place cannot be kept."""
    call = region.operations[i]
    return call.runs_again and call.moved_bytes > 0 and not call.written and changed_later(region, i) is None

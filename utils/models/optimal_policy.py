"""The best that a checkpoint can keep in so many bytes: the choice of calls that leaves the least to compute again.

Selective checkpointing runs a region's Python code again, from its start until backward has all that it needs, and a
kept call returns what it made. So each call costs what it costs, kept or not, whatever is kept around it: a knapsack,
in which calls that made views of one storage share its bytes.

    minimise   sum over calls that run again of cost[i] * (1 - keep[i])
    such that  sum over storages of bytes[j] * held[j] <= budget,     held[j] >= keep[i] where call i made storage j,
               and random calls are kept from the last one on (policies.reason_against).

It is solved in whole numbers: call after call, all choices are followed that no other beats in both, bytes and cost.
Of equal sizes there are few such choices; layers have few sizes.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, combinations

from utils.layers import check_positive

from .operations import Operation, Region
from .policies import Plan, changed_later

# Bytes and cost of one way to choose, and what it chose.
_Choice = tuple[int, int, tuple]


def optimal(region: Region, budget_bytes: int, *, flops_per_byte: int = 0) -> Plan:
    """The plan that holds at most `budget_bytes` and leaves the least to compute again.

    The least: FLOPs, and `flops_per_byte` for each byte that is moved (what a GPU computes while it moves one; 0 counts
    FLOPs alone); among equals the fewest bytes moved, then the fewest held.

    Unit:   bytes as requested, of one region, beside its inputs and outputs.
    Raises: ValueError for a negative budget or flops_per_byte.
    """
    _check(budget_bytes=budget_bytes, flops_per_byte=flops_per_byte)
    *_, (_, _, kept) = _unbeaten(_decisions(region, flops_per_byte), budget_bytes)
    return Plan(region, frozenset(kept))


def frontier(region: Region, *, flops_per_byte: int = 0) -> list[Plan]:
    """All plans that no other beats in both, bytes held and cost: from the fewest bytes to the least cost.

    Unit:   as `optimal`.
    Raises: ValueError for a negative flops_per_byte.
    """
    _check(flops_per_byte=flops_per_byte)
    plans: list[Plan] = []
    for _, _, kept in _unbeaten(_decisions(region, flops_per_byte)):
        plan = Plan(region, frozenset(kept))
        if not plans or _cost(plan, flops_per_byte) < _cost(plans[-1], flops_per_byte):
            plans.append(plan)  # else it moves fewer bytes for more that are held, at the same cost
    return plans


def mixtures(plans: Iterable[Plan], n: int) -> list[tuple[Plan, ...]]:
    """All ways to give n equal regions one of these plans each that no other way beats in both, bytes and FLOPs.

    One plan for all of them is rarely the best: between two plans there are n - 1 steps.

    Raises: ValueError for an n that is no positive integer.
    """
    check_positive(n=n)
    one_region = [(plan.kept_bytes, plan.flops, (plan,)) for plan in plans]
    return [chosen for _, _, chosen in _unbeaten([one_region] * n)]


def _unbeaten(decisions: Iterable[list[_Choice]], budget_bytes: int | None = None) -> list[_Choice]:
    """One choice for each decision, in all ways that no other way beats, from the fewest bytes to the least cost."""
    ways: list[_Choice] = [(0, 0, ())]
    for choices in decisions:
        longer = sorted(
            ((held + more, cost + extra, chosen + one) for held, cost, chosen in ways for more, extra, one in choices),
            key=lambda way: way[:2],
        )
        ways, least = [], None
        for way in longer:
            if budget_bytes is not None and way[0] > budget_bytes:
                break
            if least is None or way[1] < least:
                ways.append(way)
                least = way[1]
    return ways


def _check(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 0:
            raise ValueError(f"{name} must not be negative: got {name}={number!r}.")


def _cost(what: Plan | Operation, flops_per_byte: int) -> int:
    return what.flops + flops_per_byte * what.moved_bytes


def _decisions(region: Region, flops_per_byte: int) -> Iterator[list[_Choice]]:
    """For each group of calls, all that may be kept of it; its cost is what that spares, as a negative number.

    Bytes moved break ties: the unit of cost is so large that all of them together are less than one.
    """
    unit = 1 + sum(one.moved_bytes for one in region.operations)
    spared = [_cost(one, flops_per_byte) * unit + one.moved_bytes for one in region.operations]
    for calls in _groups(region):
        choices = []
        for kept in _may_be_kept(region, calls):
            held = frozenset().union(*(region.operations[i].made for i in kept))
            n_bytes = sum(region.storage_bytes[storage] for storage in held)
            choices.append((n_bytes, -sum(spared[i] for i in kept), kept))
        yield choices


def _groups(region: Region) -> list[list[int]]:
    """The calls worth keeping, and all that draw random numbers, in groups that must be decided on together."""
    groups: list[tuple[set, list[int]]] = []
    for i, one in enumerate(region.operations):
        if _draws(one) or _is_useful(region, i):
            shared = set(one.made) | ({"draws"} if _draws(one) else set())
            together = [group for group in groups if group[0] & shared]
            groups = [group for group in groups if not group[0] & shared]
            groups.append((shared.union(*(g[0] for g in together)), sorted(chain([i], *(g[1] for g in together)))))
    return [calls for _, calls in groups]


def _may_be_kept(region: Region, calls: list[int]) -> Iterator[tuple[int, ...]]:
    """All ways to keep some of these calls: of those that draw random numbers the last ones."""
    draws = [i for i in calls if _draws(region.operations[i])]
    others = [i for i in calls if i not in draws]
    for first in range(len(draws), -1, -1):
        if first < len(draws) and not _is_useful(region, draws[first]):
            return
        for n in range(len(others) + 1):
            yield from (tuple(draws[first:]) + some for some in combinations(others, n))


def _draws(one: Operation) -> bool:
    return one.is_random and one.runs_again


def _is_useful(region: Region, i: int) -> bool:
    """A call that saves nothing is never worth its place; one that is changed in place cannot be kept."""
    one = region.operations[i]
    return one.runs_again and one.moved_bytes > 0 and not one.written and changed_later(region, i) is None

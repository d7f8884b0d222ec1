"""The best that a checkpoint can keep in so many bytes: the choice of calls that leaves the least to compute again.

NOTE: two problems, one of which selective checkpointing can solve.

Selective checkpointing runs a region's Python code again, from its start until backward has all that it needs, and a
kept call returns what it made. So each call costs what it costs, kept or not, whatever is kept around it: a knapsack,
in which calls that made views of one storage share its bytes.

    minimise   sum over calls that run again of cost[i] * (1 - keep[i])
    such that  sum over storages of bytes[j] * held[j] <= budget,     held[j] >= keep[i] where call i made storage j,
               and random calls are kept from the last one on (policies.reason_against).

A compiler may leave out what nothing needs: keep the residual sum, and neither it nor the projection before it runs
again. Then a call must run if what it made is needed by one that runs, or by backward, and is not held:

    minimise   sum of cost[i] * run[i]
    such that  the budget,   held[j] + run[maker of j] >= 1 for each j that backward needs,
               held[j] + run[maker of j] >= run[i]     for each j that call i reads.

This bounds from below what any method can reach that recomputes these operations.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .layers import check_positive
from .operations import Operation, Region
from .policies import Plan, changed_later


def optimal(region: Region, budget_bytes: int, *, flops_per_byte: int = 0) -> Plan:
    """The plan that holds at most `budget_bytes` and leaves the least to compute again.

    The least: FLOPs, and `flops_per_byte` for each byte that is moved (what a GPU computes while it moves one; 0 counts
    FLOPs alone); among equals the fewest bytes moved, then the fewest held.

    Unit:   bytes as requested, of one region, beside its inputs and outputs.
    Raises: ValueError for a negative budget or flops_per_byte; ModuleNotFoundError without scipy.
    """
    _check(budget_bytes=budget_bytes, flops_per_byte=flops_per_byte)
    knapsack = _Knapsack(region, flops_per_byte)
    return knapsack.best(("cost", "moved", "bytes"), {"bytes": budget_bytes})


def frontier(region: Region, *, flops_per_byte: int = 0) -> list[Plan]:
    """All plans that no other beats in both, bytes held and cost: from the fewest bytes to the least cost.

    Unit:   as `optimal`.
    Raises: ValueError for a negative flops_per_byte; ModuleNotFoundError without scipy.
    """
    _check(flops_per_byte=flops_per_byte)
    return list(_from_cheapest(_Knapsack(region, flops_per_byte)))[::-1]


def _from_cheapest(knapsack: "_Knapsack") -> Iterator[Plan]:
    limits: dict[str, int] = {}
    while True:
        plan = knapsack.best(("cost", "bytes", "moved"), limits)
        yield plan
        if plan.kept_bytes == 0:
            return
        limits = {"bytes": plan.kept_bytes - 1}


def mixtures(plans: Iterable[Plan], n: int) -> list[tuple[Plan, ...]]:
    """All ways to give n equal regions one of these plans each that no other way beats in both, bytes and FLOPs.

    One plan for all of them is rarely the best: between two plans there are n - 1 steps.

    Raises: ValueError for an n that is no positive integer.
    """
    check_positive(n=n)
    plans = list(plans)
    best: dict[tuple[int, int], tuple[Plan, ...]] = {(0, 0): ()}
    for _ in range(n):
        longer = {
            (n_bytes + plan.kept_bytes, flops + plan.flops): (*way, plan)
            for (n_bytes, flops), way in best.items()
            for plan in plans
        }
        best, least = {}, None
        for place in sorted(longer):
            if least is None or place[1] < least:
                best[place], least = longer[place], place[1]
    return list(best.values())


def least_flops(region: Region, budget_bytes: int) -> int:
    """The FLOPs that must be computed again if `budget_bytes` are held, even where nothing runs without need.

    Counts: single storages are held, not all outputs of a call; random calls and what is changed in place run at will.
            A bound: no policy of selective checkpointing may reach it.
    Raises: ValueError for a negative budget; ModuleNotFoundError without scipy.
    """
    _check(budget_bytes=budget_bytes)
    operations, sizes = region.operations, region.storage_bytes
    makers = {storage: i for i, one in reversed(list(enumerate(operations))) for storage in one.made - one.read}
    n = len(operations)
    held = {storage: n + i for i, storage in enumerate(sizes)}
    rows = [({held[s]: 1, makers[s]: 1}, 1) for s in region.saved]
    rows += [({held[s]: 1, makers[s]: 1, i: -1}, 0) for i, one in enumerate(operations) for s in one.read]
    rows.append(({held[s]: -size for s, size in sizes.items()}, -budget_bytes))
    run = _minimise([one.flops for one in operations] + [0] * len(sizes), rows)
    return sum(one.flops for i, one in enumerate(operations) if run[i])


def _check(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 0:
            raise ValueError(f"{name} must not be negative: got {name}={number!r}.")


@dataclass(frozen=True)
class _Knapsack:
    """A variable for each call, 1 if it is kept; then one for each storage, 1 if it is held."""

    region: Region
    flops_per_byte: int

    def best(self, goals: tuple[str, ...], limits: dict[str, int]) -> Plan:
        """Minimise the first goal within the limits, then the second without giving way in the first, and so on."""
        limits = dict(limits)
        for goal in goals:
            plan = self._within(goal, limits)
            limits[goal] = self._reached(plan)[goal]
        return plan

    def _within(self, goal: str, limits: dict[str, int]) -> Plan:
        """A solver's sums are not exact: where one lies above its limit, the limit is lowered by as much.

        What lies on the limit stays possible: the solver lets pass by how much it was wrong.
        """
        lowered = dict(limits)
        while True:
            rows = self._rules() + [self._below(name, limit) for name, limit in lowered.items()]
            values = _minimise(self._weights(goal), rows, self._may_keep())
            plan = Plan(self.region, frozenset(i for i in range(len(self.region.operations)) if values[i]))
            reached = self._reached(plan)
            over = {name: reached[name] - limit for name, limit in limits.items() if reached[name] > limit}
            if not over:
                return plan
            lowered |= {name: lowered[name] - excess for name, excess in over.items()}

    def _reached(self, plan: Plan) -> dict[str, int]:
        cost = plan.flops + self.flops_per_byte * plan.moved_bytes
        return {"cost": cost, "moved": plan.moved_bytes, "bytes": plan.kept_bytes}

    def _weights(self, name: str) -> list[int]:
        """What each variable adds to a sum; for cost and moved bytes it takes away, from all that could run again."""
        operations, sizes = self.region.operations, self.region.storage_bytes
        if name == "bytes":
            return [0] * len(operations) + list(sizes.values())
        return [-self._cost(one, name) for one in operations] + [0] * len(sizes)

    def _cost(self, one: Operation, name: str) -> int:
        if not one.runs_again:
            return 0
        return one.moved_bytes if name == "moved" else one.flops + self.flops_per_byte * one.moved_bytes

    def _below(self, name: str, limit: int) -> tuple[dict[int, int], int]:
        weights = self._weights(name)
        everything = 0 if name == "bytes" else -sum(weights)
        return {i: -weight for i, weight in enumerate(weights) if weight}, everything - limit

    def _rules(self) -> list[tuple[dict[int, int], int]]:
        operations = self.region.operations
        place = {storage: len(operations) + i for i, storage in enumerate(self.region.storage_bytes)}
        held = [({place[storage]: 1, i: -1}, 0) for i, one in enumerate(operations) for storage in one.made]
        draws = [i for i, one in enumerate(operations) if one.is_random and one.runs_again]
        return held + [({later: 1, earlier: -1}, 0) for earlier, later in zip(draws, draws[1:], strict=False)]

    def _may_keep(self) -> list[bool]:
        """A call that saves nothing is never worth its place; one that is changed in place cannot be kept."""
        calls = enumerate(self.region.operations)
        useful = [one.runs_again and one.moved_bytes > 0 and not one.written for _, one in calls]
        allowed = [use and changed_later(self.region, i) is None for i, use in enumerate(useful)]
        return allowed + [True] * len(self.region.storage_bytes)


def _minimise(weights: list[int], rows: list[tuple[dict[int, int], int]], may_be_one=None) -> list[bool]:
    """Values of 0 and 1 for which the weighted sum is least; each row is (factors, least value of their sum)."""
    import numpy
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    def scaled(numbers):
        return numpy.array(numbers, dtype=float) / max(1, *(abs(number) for number in numbers))

    entries = [(at, i, f / _largest(row)) for at, (row, _) in enumerate(rows) for i, f in row.items()]
    at, columns, factors = zip(*entries, strict=True)
    least = [value / _largest(row) for row, value in rows]
    matrix = coo_array((factors, (at, columns)), shape=(len(rows), len(weights)))
    found = milp(
        scaled(weights),
        integrality=numpy.ones(len(weights)),
        bounds=Bounds(0, numpy.ones(len(weights)) if may_be_one is None else numpy.array(may_be_one, dtype=float)),
        constraints=LinearConstraint(matrix.tocsc(), lb=numpy.array(least)),
        options={"mip_rel_gap": 0},
    )
    assert found.status == 0, found.message  # to keep nothing, or to hold everything, is always possible
    return [value > 0.5 for value in found.x]


def _largest(row: dict[int, int]) -> int:
    return max((abs(factor) for factor in row.values()), default=0) or 1

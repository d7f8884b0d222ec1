"""The compiler's memory budget from 1 to 0: what a block holds at each, and what runs again for it."""

from dataclasses import dataclass
from functools import cache

import torch
from torch import nn

from every_byte.remedies.operations import Operation
from every_byte.tables import Table
from every_byte.units import MiB
from utils.models.compiled import Compiled, Graphs

from .block_stack import Stack
from .recomputation import held_by_a_block

TENTHS = tuple(i / 10 for i in range(10, -1, -1))
_GIVEN = ("primals", "tangents")  # how the graph names what it is given: inputs, and gradients that come in


@dataclass(frozen=True)
class Budgeted:
    """A block of a stack as it was compiled with a memory budget.

    Counts: `held_bytes` neither the parameters, nor the input, nor the output; `weighed_bytes` the same as the
            partitioner counts them, each node of the graph that crosses the cut, views of one storage several times.
    Unit:   bytes, requested; FLOPs of matrix products and attention.
    """

    budget: float
    held_bytes: int
    weighed_bytes: int
    flops: int
    run_again: tuple[str, ...]


@cache
def compiled_block(stack: Stack, budget: float) -> Budgeted:
    """The first block of a stack, compiled and run on a simulated A100.

    Raises: as `Compiled`.
    """
    made: list[Compiled] = []

    def run(block: nn.Module, x: torch.Tensor) -> torch.Tensor:
        made.append(Compiled(block, budget))
        y: torch.Tensor = made[0](x)
        return y

    held_bytes, _ = held_by_a_block(stack, run)
    graphs = made[0].graphs
    flops = {f"{call.operator.overloadpacket.__name__} {call.nth}": call.flops for call in _calls(stack)}
    again = graphs.run_again
    return Budgeted(budget, held_bytes, _weighed(graphs), sum(flops.get(name, 0) for name in again), again)


@cache
def _calls(stack: Stack) -> tuple[Operation, ...]:
    return stack.region().operations


def _weighed(graphs: Graphs) -> int:
    given = (node for node in graphs.backward.graph.nodes if node.op == "placeholder")
    return sum(node.meta["val"].nbytes for node in given if not node.name.startswith(_GIVEN))


def budget_table(found: list[Budgeted]) -> str:
    """A row for each budget, the largest first: MiB held, its share of the first row, GFLOP again, and what is new.

    New is what runs again at this budget and at none above it.
    """
    rows, before = [], set()
    for one in found:
        new = [name.removeprefix("_scaled_dot_product_") for name in one.run_again if name not in before]
        before |= set(one.run_again)
        share = f"{one.held_bytes / found[0].held_bytes:.0%}"
        numbers = f"{one.held_bytes / MiB:.1f}", share, f"{one.flops / 10**9:.1f}"
        rows.append([f"{one.budget:g}", ", ".join(new), *numbers])
    head = ["budget", "starts to run again", "MiB held", "of budget 1", "GFLOP again"]
    return Table("", head, rows, numbers=3).text()


def without_flops(found: list[Budgeted]) -> Budgeted:
    """Of these the one that holds least and computes no product and no attention again.

    Raises: ValueError where each of them computes one again.
    """
    cheap = [one for one in found if not one.flops]
    if not cheap:
        n = len(found)
        raise ValueError(f"one of these must compute no FLOPs again: got {n} that do; add a larger budget, such as 1.")
    return min(cheap, key=lambda one: one.held_bytes)

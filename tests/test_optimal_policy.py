"""The optimal plan against every plan there is, and against what people write by hand."""

from functools import partial
from itertools import chain, combinations

import pytest
import torch
from recorded_regions import SHAPES, made
from torch.utils.checkpoint import checkpoint

from utils.operations import FlopCounter, record
from utils.optimal_policy import frontier, least_flops, mixtures, optimal
from utils.policies import COMPUTE_INTENSIVE, MATMULS, Plan, reason_against

aten = torch.ops.aten
BY_HAND = {
    "matmuls": MATMULS,
    "compute-intensive": COMPUTE_INTENSIVE,
    "with dropout": (*COMPUTE_INTENSIVE, aten.native_dropout),
    "addmm": (aten.addmm,),
    "attention": (aten._scaled_dot_product_flash_attention, aten.bmm, aten.native_dropout),
    "norms": (aten.native_layer_norm,),
    "elementwise": (aten.gelu, aten.add, aten._softmax),
}


def every_plan(region) -> list[Plan]:
    """All that may be, of the calls that have something to keep."""
    calls = [i for i, one in enumerate(region.operations) if one.moved_bytes]
    chosen = chain.from_iterable(combinations(calls, n) for n in range(len(calls) + 1))
    return [Plan(region, frozenset(kept)) for kept in chosen if not reason_against(region, frozenset(kept))]


def goals(plan: Plan, flops_per_byte: int = 0) -> tuple[int, int, int]:
    return plan.flops + flops_per_byte * plan.moved_bytes, plan.moved_bytes, plan.kept_bytes


def small_regions() -> dict:
    w = torch.linspace(-1, 1, 64).view(8, 8).requires_grad_()
    wide = torch.zeros(8, 24, requires_grad=True)
    x = torch.zeros(4, 8, requires_grad=True)
    functions = {
        "products": lambda x: ((x @ w).sin() @ w).exp() @ w,
        "in place": lambda x: (x @ wide).relu_()[:, :8].sin() @ w,
        "views": lambda x: sum(part.sin() @ w for part in (x @ wide).split(8, dim=1)),
        "random": lambda x: torch.native_dropout(torch.native_dropout(x @ w, 0.5, True)[0].sin() @ w, 0.1, True)[0] @ w,
        "nothing to keep": lambda x: x.sin(),
    }
    return {name: record(function, x) for name, function in functions.items()}


@pytest.mark.parametrize("flops_per_byte", [0, 1, 100])
@pytest.mark.parametrize(("name", "region"), small_regions().items())
def test_no_plan_is_better(name, region, flops_per_byte):
    plans = every_plan(region)

    budgets = {plan.kept_bytes + off for plan in plans for off in (-1, 0)} - {-1}
    for budget in budgets:
        best = optimal(region, budget, flops_per_byte=flops_per_byte)
        assert best.kept_bytes <= budget
        assert goals(best, flops_per_byte) == min(
            goals(plan, flops_per_byte) for plan in plans if plan.kept_bytes <= budget
        )


@pytest.mark.parametrize(("name", "region"), small_regions().items())
def test_the_frontier_is_what_no_plan_beats(name, region):
    by_bytes = sorted((plan.kept_bytes, plan.flops) for plan in every_plan(region))
    expected = [place for i, place in enumerate(by_bytes) if all(place[1] < flops for _, flops in by_bytes[:i])]
    assert [(plan.kept_bytes, plan.flops) for plan in frontier(region)] == expected


@pytest.mark.parametrize("act_fn", ["gelu", "relu_"])
@pytest.mark.parametrize("name", SHAPES)
def test_the_frontier_is_nowhere_worse_than_a_policy_by_hand(gpu, name, act_fn):
    region = record(*made(gpu, name, act_fn))
    plans = frontier(region)
    compared = 0
    for listed in (*BY_HAND.values(), [one.operator for one in region.operations]):
        try:
            by_hand = Plan.keeping(region, listed)
        except ValueError:  # it would fail, or give other gradients
            continue
        compared += 1
        best = optimal(region, by_hand.kept_bytes)
        on_frontier = [plan for plan in plans if plan.kept_bytes <= by_hand.kept_bytes][-1]
        assert best.flops == on_frontier.flops <= by_hand.flops
        assert goals(best) <= goals(by_hand)
    assert compared >= (4 if act_fn == "gelu" else 2), "in place, most policies by hand are refused"


@pytest.mark.parametrize("act_fn", ["gelu", "relu_"])
@pytest.mark.parametrize("name", SHAPES)
def test_the_simulated_bytes_and_flops_are_those_of_the_plan(gpu, name, act_fn):
    block, x = made(gpu, name, act_fn)
    gpu.load_libraries()
    plans = frontier(record(block, x))
    assert len(plans) > 5

    def step(run) -> tuple[int, int]:
        before = gpu.memory_stats()["requested_bytes.all.current"]
        output = run()
        held = gpu.memory_stats()["requested_bytes.all.current"] - before - output.nbytes
        with FlopCounter() as counter:
            output.sum().backward()
        block.zero_grad()
        x.grad = None
        return held, counter.total

    _, eager_flops = step(lambda: block(x))
    for plan in plans:
        held, flops = step(partial(checkpoint, block, x, use_reentrant=False, context_fn=plan.contexts))
        assert (held, flops - eager_flops) == (plan.kept_bytes, plan.flops)


@pytest.mark.parametrize("name", SHAPES)
def test_the_bound_lies_below_every_plan_and_reaches_both_ends(gpu, name):
    region = record(*made(gpu, name))
    for plan in frontier(region):
        assert least_flops(region, plan.kept_bytes) <= plan.flops
    assert least_flops(region, region.saved_bytes) == 0
    assert least_flops(region, 0) == region.flops


def test_what_only_a_compiler_can_leave_out():
    """Holding the sum, it needs no product again; selective checkpointing runs what leads to it all the same."""
    w = torch.zeros(8, 8, requires_grad=True)
    x = torch.zeros(4, 8, requires_grad=True)
    region = record(lambda x: (x + x @ w).sin() * 2, x)
    assert [str(one) for one in region.operations[:2]] == ["aten.mm.default 1", "aten.add.Tensor 1"]
    assert Plan(region, frozenset({1})).flops == 2 * 4 * 8 * 8
    assert least_flops(region, 4 * 8 * 4) == 0
    assert optimal(region, 4 * 8 * 4).kept == {0}, "the product itself costs the same bytes"
    assert least_flops(region, 4 * 8 * 4 - 1) == 2 * 4 * 8 * 8


@pytest.mark.parametrize("n", [1, 2, 3])
def test_mixtures_are_what_no_mixture_beats(n):
    plans = frontier(small_regions()["views"])
    ways = [tuple(plans[i] for i in chosen) for chosen in combinations(sorted(list(range(len(plans))) * n), n)]
    places = sorted({(sum(p.kept_bytes for p in way), sum(p.flops for p in way)) for way in ways})
    expected = [place for i, place in enumerate(places) if all(place[1] < flops for _, flops in places[:i])]
    found = mixtures(plans, n)
    assert [(sum(p.kept_bytes for p in way), sum(p.flops for p in way)) for way in found] == expected
    assert {len(way) for way in found} == {n}


def test_numbers_are_checked():
    region = small_regions()["products"]
    with pytest.raises(ValueError, match="budget_bytes must not be negative: got budget_bytes=-1"):
        optimal(region, -1)
    with pytest.raises(ValueError, match="flops_per_byte must not be negative"):
        frontier(region, flops_per_byte=-1)
    with pytest.raises(ValueError, match="n must be a positive integer"):
        mixtures([], 0)

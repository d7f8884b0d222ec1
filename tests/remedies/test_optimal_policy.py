"""The optimal plan against every plan there is, and against what people write by hand."""

import copy
import random
from dataclasses import replace
from functools import partial
from itertools import chain, combinations

import pytest
import torch
from compilers_bound import least_flops
from recorded_regions import SHAPES, made
from torch import nn
from torch.utils.checkpoint import checkpoint

from every_byte.remedies.operations import FlopCounter, Operation, Region, record
from every_byte.remedies.optimal_policy import frontier, mixtures, optimal
from every_byte.remedies.policies import COMPUTE_INTENSIVE, MATMULS, Plan, reason_against

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
        "a view alone": lambda x: x.view(-1),
    }
    return {name: record(function, x) for name, function in functions.items()}


def random_region(seed: int) -> Region:
    """Calls whose bytes and FLOPs lie up to ten orders of magnitude apart; some share storages, some are random."""
    choose = random.Random(seed)
    operations, sizes = [], {}
    for i in range(choose.randrange(1, 9)):
        size = choose.choice([0, 1, 4, 512, 512, 2**20, 2**20 + 4, 10**10])
        made = {i} | ({choose.randrange(i)} if i and choose.random() < 0.2 else set())
        sizes[i] = size
        operations.append(
            Operation(
                aten.add.Tensor,
                i + 1,
                flops=choose.choice([0, 0, 1, 2, 2**20, 2**20 + 1, 10**13]),
                moved_bytes=choose.choice([0, 1, 2 * size]),
                made=frozenset(made),
                read=frozenset(),
                written=frozenset({choose.randrange(i)} if i and choose.random() < 0.1 else ()),
                is_random=choose.random() < 0.3,
                runs_again=choose.random() < 0.9,
            )
        )
    return Region(tuple(operations), sizes, frozenset(sizes))


def repeated(region: Region, n: int) -> Region:
    """The same calls n times, each time on storages of their own."""
    size = len(region.storage_bytes)

    def shifted(one: Operation, i: int) -> Operation:
        names = "made", "read", "written"
        moved = {name: frozenset(key + i * size for key in getattr(one, name)) for name in names}
        return replace(one, nth=one.nth + i * len(region.operations), **moved)

    operations = tuple(shifted(one, i) for i in range(n) for one in region.operations)
    sizes = {key + i * size: n_bytes for i in range(n) for key, n_bytes in region.storage_bytes.items()}
    return Region(operations, sizes, frozenset(sizes))


SHORT = [seed for seed in range(120) if len(random_region(seed).operations) == 3]
REGIONS = {f"equal {seed}": repeated(random_region(seed), 3) for seed in SHORT}
REGIONS |= small_regions() | {f"random {seed}": random_region(seed) for seed in range(60)}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("flops_per_byte", [0, 1, 100])
@pytest.mark.parametrize("name", REGIONS)
def test_no_plan_is_better(name, flops_per_byte):
    region = REGIONS[name]
    plans = every_plan(region)

    budgets = {plan.kept_bytes + off for plan in plans for off in (-1, 0)} - {-1}
    for budget in budgets:
        best = optimal(region, budget, flops_per_byte=flops_per_byte)
        assert best.kept_bytes <= budget
        assert goals(best, flops_per_byte) == min(
            goals(plan, flops_per_byte) for plan in plans if plan.kept_bytes <= budget
        )


@pytest.mark.parametrize("flops_per_byte", [0, 100])
@pytest.mark.parametrize("name", REGIONS)
def test_the_frontier_is_what_no_plan_beats(name, flops_per_byte):
    def place(plan: Plan) -> tuple[int, int]:
        return plan.kept_bytes, goals(plan, flops_per_byte)[0]

    region = REGIONS[name]
    places = sorted(map(place, every_plan(region)))
    expected = [one for i, one in enumerate(places) if all(one[1] < cost for _, cost in places[:i])]
    assert [place(plan) for plan in frontier(region, flops_per_byte=flops_per_byte)] == expected


def test_of_many_equal_blocks_each_keeps_what_one_would():
    """Where there is room for that, and no call draws random numbers: those are kept from the last one on."""
    blocks = map(random_region, SHORT)
    block = next(block for block in blocks if not any(one.is_random for one in block.operations))
    stack = repeated(block, 200)
    for plan in frontier(block):
        best = optimal(stack, 200 * plan.kept_bytes)
        assert goals(best)[0] <= 200 * plan.flops
        assert best.kept_bytes <= 200 * plan.kept_bytes


def test_the_smallest_and_the_largest_call_count_to_the_byte(gpu):
    """A gate of one column beside wide layers: 16 KiB and 16 MiB, 16 MFLOP and 137 GFLOP."""

    class Gated(nn.Module):
        def __init__(self, d: int) -> None:
            super().__init__()
            settings = {"device": gpu.device, "dtype": torch.bfloat16}
            self.gate, self.out = nn.Linear(d, 1, **settings), nn.Linear(d, d, **settings)
            self.mlp = nn.Sequential(nn.Linear(d, 4 * d, **settings), nn.GELU(), nn.Linear(4 * d, d, **settings))

        def forward(self, x):
            return x + self.out(self.mlp(x * self.gate(x).sigmoid())).tanh()

    x = torch.empty(8, 1024, 1024, device=gpu.device, dtype=torch.bfloat16, requires_grad=True)
    region = record(Gated(1024), x)
    plans = frontier(region)
    for plan in plans:
        assert optimal(region, plan.kept_bytes) == plan
        assert plan.kept_bytes == 0 or optimal(region, plan.kept_bytes - 1).flops > plan.flops
    gate = next(i for i, one in enumerate(region.operations) if 0 < one.flops == 2 * 8 * 1024 * 1024)
    assert optimal(region, 8 * 1024 * 2).kept == {gate}
    assert [plan.kept for plan in plans[:2]] == [frozenset(), {gate}]


@pytest.mark.parametrize("name", SHAPES)
def test_a_larger_batch_has_the_same_plans(gpu, name):
    """Beyond 2^53, too, where a floating-point number no longer holds every integer."""
    region = record(*made(gpu, name))
    larger = replace(
        region,
        operations=tuple(
            replace(one, flops=one.flops << 40, moved_bytes=one.moved_bytes << 40) for one in region.operations
        ),
        storage_bytes={storage: n_bytes << 40 for storage, n_bytes in region.storage_bytes.items()},
    )
    assert [plan.kept for plan in frontier(larger)] == [plan.kept for plan in frontier(region)]


def test_four_blocks_as_one_region(gpu):
    block, x = made(gpu, "flash, dropout")
    region = record(nn.Sequential(*(copy.deepcopy(block) for _ in range(4))), x)
    plans = frontier(region)
    for listed in BY_HAND.values():
        try:
            by_hand = Plan.keeping(region, listed)
        except ValueError:
            continue
        assert min(plan.flops for plan in plans if plan.kept_bytes <= by_hand.kept_bytes) <= by_hand.flops


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


@pytest.mark.long
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

"""Selective checkpointing's policies: what they keep, in bytes, and that gradients are those without a checkpoint."""

from functools import partial

import pytest
import torch
from recorded_regions import SHAPES, made
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from every_byte.remedies.operations import FlopCounter, record
from every_byte.remedies.policies import COMPUTE_INTENSIVE, MATMULS, Plan, as_printed, keeping, overloads
from utils import Block, SavedTensorContext, SimulatedGPU

aten = torch.ops.aten


def requested(gpu) -> int:
    return gpu.memory_stats()["requested_bytes.all.current"]


def held(gpu, run) -> int:
    """What is there at the start of backward beside the output."""
    gpu.load_libraries()
    before = requested(gpu)
    output = run()
    return requested(gpu) - before - output.nbytes


def run_of(block, x, context_fn):
    return lambda: checkpoint(block, x, use_reentrant=False, context_fn=context_fn)


@pytest.mark.parametrize("listed", [MATMULS, COMPUTE_INTENSIVE])
def test_the_policies_as_printed_keep_nothing(gpu, listed):
    block, x = made(gpu, "flash")
    plain = held(gpu, lambda: checkpoint(block, x, use_reentrant=False))
    assert held(gpu, run_of(block, x, as_printed(listed))) == plain == 0
    assert held(gpu, run_of(block, x, keeping(listed))) > 0


def test_why_they_keep_nothing():
    assert aten.mm.default not in MATMULS
    assert aten.mm.default in overloads(MATMULS)
    assert aten._scaled_dot_product_cudnn_attention.default not in overloads(COMPUTE_INTENSIVE)


def test_a_list_of_packets_is_refused_by_pytorch():
    with pytest.raises(ValueError, match="change it to `torch.ops.aten.mm.default`"):
        create_selective_checkpoint_contexts([aten.mm])


@pytest.mark.parametrize("name", SHAPES)
def test_a_policy_holds_what_its_plan_says(gpu, name):
    """Dropout goes with attention: kept without it, later dropouts would draw other numbers."""
    block, x = made(gpu, name)
    region = record(block, x)
    for listed in (MATMULS, [*COMPUTE_INTENSIVE, aten.native_dropout], [one.operator for one in region.operations]):
        plan = Plan.keeping(region, listed)
        assert held(gpu, run_of(block, x, keeping(listed))) == plan.kept_bytes
        assert held(gpu, run_of(block, x, plan.contexts)) == plan.kept_bytes


@pytest.mark.long
@pytest.mark.parametrize("name", SHAPES)
def test_a_policy_runs_again_what_its_plan_says(gpu, name):
    block, x = made(gpu, name)
    region = record(block, x)

    def flops(run):
        with FlopCounter() as counter:
            run().sum().backward()
        return counter.total

    eager = flops(lambda: block(x))
    for listed in (MATMULS, [aten.gelu]):
        plan = Plan.keeping(region, listed)
        assert flops(run_of(block, x, keeping(listed))) - eager == plan.flops
        assert flops(run_of(block, x, plan.contexts)) - eager == plan.flops
    assert flops(lambda: checkpoint(block, x, use_reentrant=False)) - eager == region.flops


def test_what_is_kept_is_invisible_to_hooks_and_counted_by_the_allocator(gpu):
    block, x = made(gpu, "flash")
    with SavedTensorContext(ignored_tensors=[x, *block.parameters()]) as saved:
        n_bytes = held(gpu, run_of(block, x, keeping(MATMULS)))
    assert saved.saved_tensor_mem == 0
    assert n_bytes == Plan.keeping(record(block, x), MATMULS).kept_bytes > 0


def test_keeping_too_much_costs_more_than_no_checkpoint(gpu):
    block, x = made(gpu, "flash")
    region = record(block, x)
    everything = Plan.keeping(region, [one.operator for one in region.operations])
    assert everything.kept_bytes > region.saved_bytes
    assert held(gpu, run_of(block, x, everything.contexts)) > held(gpu, lambda: block(x)) == region.saved_bytes


def float64_block(dropout=None, act_fn="gelu"):
    torch.manual_seed(0)
    return Block(8, 2, act_fn, dropout, kind="explicit", context_length=5, dtype=torch.float64)


def gradients(block, run):
    torch.manual_seed(1)
    x = torch.linspace(-1, 1, 2 * 5 * 8, dtype=torch.float64).view(2, 5, 8).requires_grad_()
    block.zero_grad()
    run(x).sin().sum().backward()
    return [x.grad, *(parameter.grad for parameter in block.parameters())]


def equal(one, other) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("listed", [MATMULS, COMPUTE_INTENSIVE, [aten.gelu, aten._softmax]])
def test_gradients_are_those_of_eager_mode(listed):
    block = float64_block()
    eager = gradients(block, block)
    for context_fn in (as_printed(listed), keeping(listed), plan_on_cpu(block, listed).contexts):
        run = partial(checkpoint, block, use_reentrant=False, context_fn=context_fn)
        assert equal(eager, gradients(block, run))


def plan_on_cpu(block, listed) -> Plan:
    return Plan.keeping(record(block, torch.zeros(2, 5, 8, dtype=torch.float64, requires_grad=True)), listed)


class TwoDropouts(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 64, dtype=torch.float64).view(8, 8))

    def forward(self, x):
        x = torch.native_dropout(x @ self.weight, 0.5, True)[0]
        return torch.native_dropout(x.sin(), 0.5, True)[0]


def keeping_dropouts(*kept: int):
    def contexts():
        seen = []

        def policy(ctx, operator, *args, **kwargs):
            is_dropout = operator is aten.native_dropout.default
            seen.extend([0] * is_dropout)
            return CheckpointPolicy.MUST_SAVE if is_dropout and len(seen) in kept else CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    return contexts


@pytest.mark.parametrize(("kept", "right"), [((), True), ((1,), False), ((2,), True), ((1, 2), True)])
def test_a_random_call_must_not_be_kept_before_one_that_runs_again(kept, right):
    """PyTorch gives wrong gradients and says nothing; a plan refuses."""
    model = TwoDropouts()
    eager = gradients(model, model)

    def run(x):
        return checkpoint(model, x, use_reentrant=False, context_fn=keeping_dropouts(*kept))

    assert equal(eager, gradients(model, run)) == right
    region = record(model, torch.zeros(2, 5, 8, dtype=torch.float64, requires_grad=True))
    places = [i for i, one in enumerate(region.operations) if one.is_random]
    positions = frozenset(places[nth - 1] for nth in kept)
    if right:
        contexts = Plan(region, positions).contexts
        assert equal(eager, gradients(model, partial(checkpoint, model, use_reentrant=False, context_fn=contexts)))
    else:
        with pytest.raises(ValueError, match="native_dropout.default 1 draws random numbers .* keep both or neither"):
            Plan(region, positions)


def test_not_even_if_nothing_lies_between_them():
    def function(x):
        return torch.native_dropout(torch.native_dropout(x, 0.5, True)[0], 0.5, True)[0].sin()

    region = record(function, torch.zeros(2, requires_grad=True))
    with pytest.raises(ValueError, match="native_dropout.default 1 draws random numbers .* keep both or neither"):
        Plan(region, frozenset({0}))
    assert Plan(region, frozenset({1})).kept == {1}


def test_what_is_changed_in_place_later_must_not_be_kept():
    """PyTorch says so in backward; a plan says so at once."""
    block = float64_block(act_fn="relu_")
    with pytest.raises(RuntimeError, match="has been mutated"):
        gradients(block, lambda x: checkpoint(block, x, use_reentrant=False, context_fn=keeping([aten.addmm])))
    with pytest.raises(ValueError, match="addmm.default 3 must not be kept: aten.relu_.default 1 changes in place"):
        plan_on_cpu(block, [aten.addmm])


def test_a_call_that_changes_its_input_must_not_be_kept():
    with pytest.raises(ValueError, match="aten.relu_.default 1 changes its input in place and must run again"):
        plan_on_cpu(float64_block(act_fn="relu_"), [aten.relu_])


def test_a_plan_is_for_the_region_that_was_recorded():
    region = record(torch.sin, torch.zeros(2, requires_grad=True))
    plan = Plan(region, frozenset({0}))
    x = torch.zeros(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"calls aten.sin.default for the 2. time, which is not among them"):
        checkpoint(lambda x: x.sin().sin(), x, use_reentrant=False, context_fn=plan.contexts)
    with pytest.raises(ValueError, match="kept must be positions below 1: got 1"):
        Plan(region, frozenset({1}))


def test_a_plan_may_be_used_for_many_runs(gpu):
    block, x = made(gpu, "flash")
    plan = Plan.keeping(record(block, x), MATMULS)
    n_bytes = held(gpu, lambda: run_of(block, run_of(block, x, plan.contexts)(), plan.contexts)())
    assert n_bytes == 2 * plan.kept_bytes + x.nbytes


def test_operators_are_checked():
    with pytest.raises(TypeError, match=r"operators must be of torch.ops: got 'mm'; try torch.ops.aten.mm"):
        keeping(["mm"])
    with pytest.raises(ValueError, match="operators must name one at least"):
        keeping([])


@pytest.mark.parametrize("gpu_name", ["a100-80gb", "h100-80gb"])
def test_on_hopper_the_articles_second_policy_keeps_no_attention(gpu_name):
    with SimulatedGPU(gpu_name) as gpu:
        block, x = made(gpu, "flash")
        plan = Plan.keeping(record(block, x), COMPUTE_INTENSIVE)
    names = {plan.region.operations[position].operator.overloadpacket.__name__ for position in plan.kept}
    assert ("_scaled_dot_product_flash_attention" in names) == (gpu_name == "a100-80gb")
    assert any(one.flops for one in plan.runs_again) == (gpu_name == "h100-80gb")

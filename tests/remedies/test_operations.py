"""A region's record is what autograd keeps, what a checkpoint runs again, and what PyTorch counts of FLOPs."""

import pytest
import torch
from recorded_regions import SHAPES, made
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import SAC_IGNORED_OPS, checkpoint
from torch.utils.flop_counter import FlopCounterMode

from every_byte.remedies.operations import FlopCounter, record
from utils import SavedTensorContext, SimulatedGPU

aten = torch.ops.aten


class Calls(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func not in SAC_IGNORED_OPS:
            self.seen.append(func)
        return func(*args, **kwargs or {})


@pytest.mark.parametrize("act_fn", ["gelu", "relu", "relu_"])
@pytest.mark.parametrize("name", SHAPES)
def test_what_runs_again_is_what_a_checkpoint_runs_again(gpu, name, act_fn):
    block, x = made(gpu, name, act_fn)
    region = record(block, x)
    forward, again = Calls(), Calls()
    checkpoint(block, x, use_reentrant=False, context_fn=lambda: (forward, again)).sum().backward()
    assert [one.operator for one in region.operations] == forward.seen
    assert [one.operator for one in region.operations if one.runs_again] == again.seen


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_saved_is_what_autograd_keeps(gpu, name):
    block, x = made(gpu, name)
    region = record(block, x)
    with SavedTensorContext(ignored_tensors=[x, *block.parameters(), *block.buffers()]) as saved:
        output = block(x)
    seeds = 16 if name == "efficient" else 0  # two numbers on the CPU
    assert region.saved_bytes + seeds == saved.saved_tensor_mem
    assert output.grad_fn is not None


@pytest.mark.parametrize("name", SHAPES)
def test_flops_are_those_of_pytorchs_counter(gpu, name):
    block, x = made(gpu, name)
    with FlopCounterMode(display=False) as theirs:
        block(x).sum().backward()
    with FlopCounter() as ours:
        block(x).sum().backward()
    assert ours.total == theirs.get_total_flops() > 0
    with FlopCounterMode(display=False) as forward:
        block(x)
    assert sum(one.flops for one in record(block, x).operations) == forward.get_total_flops()


@pytest.mark.parametrize("name", SHAPES)
def test_flops_are_counted_in_inference_mode_too(gpu, name):
    """Where operations reach the counter as they were written: `linear`, `matmul`."""
    block, x = made(gpu, name)
    expected = sum(one.flops for one in record(block, x).operations)
    for without_gradients in (torch.no_grad, torch.inference_mode):
        with without_gradients(), FlopCounter() as ours:
            block(x)
        assert ours.total == expected


def test_flops_of_recurrent_layers_and_of_groups_which_pytorchs_counter_leaves_out():
    with SimulatedGPU("a100-80gb", cuda=True), FlopCounter() as counter:
        model = nn.GRU(64, 128, 2, bidirectional=True, batch_first=True).cuda()
        model(torch.randn(8, 20, 64).cuda())[0].sum().backward()
    n = sum(p.numel() for p in model.parameters() if p.dim() > 1)
    assert counter.total == 3 * 2 * 8 * 20 * n
    with SimulatedGPU("a100-80gb", cuda=True), FlopCounter() as counter:
        how = dict(dtype=torch.bfloat16, device="cuda", requires_grad=True)
        rows, experts = torch.randn(64, 32, **how), torch.randn(4, 32, 48, **how)
        ends = torch.tensor([16, 32, 48, 64], dtype=torch.int32).cuda()
        torch._grouped_mm(rows, experts, offs=ends).square().mean().backward()
    assert counter.total == 3 * 2 * 64 * 32 * 48


def test_what_is_broadcast_moves_what_lies_in_memory():
    region = record(lambda x: x.expand(1000, 8) * 2, torch.zeros(8, requires_grad=True))
    assert [one.moved_bytes for one in region.operations] == [0, 8 * 4 + 1000 * 8 * 4]


def test_bytes_by_hand():
    x = torch.zeros(4, 8, requires_grad=True)
    region = record(lambda x: (x.exp().view(32).sin() * 2).relu_(), x)
    exp, view, sin, mul, relu_ = region.operations
    assert [one.moved_bytes for one in region.operations] == [256, 0, 256, 256, 256]
    assert exp.made == view.made == view.read == sin.read == {0}
    assert relu_.made == relu_.written == mul.made == {2}
    assert region.storage_bytes == {0: 128, 1: 128, 2: 0}, "the output is held anyway"
    assert region.saved == {0, 2}, "exp its result, sin its input: one storage; relu its result"
    assert str(sin) == "aten.sin.default 1"


def test_calls_are_numbered_by_operator():
    region = record(lambda x: x.sin().cos().sin(), torch.zeros(2, requires_grad=True))
    assert [(str(one.operator), one.nth) for one in region.operations] == [
        ("aten.sin.default", 1),
        ("aten.cos.default", 1),
        ("aten.sin.default", 2),
    ]
    assert [one.runs_again for one in region.operations] == [True, True, False], "the last sin saves its input"


@pytest.mark.parametrize(
    ("function", "random"),
    [
        (lambda x: torch.native_dropout(x, 0.5, True)[0], [True]),
        (lambda x: x + torch.rand_like(x), [True, False]),
        (lambda x: x.sin(), [False]),
    ],
)
def test_what_is_random(function, random):
    region = record(function, torch.zeros(3, requires_grad=True))
    assert [one.is_random for one in region.operations] == random


@pytest.mark.parametrize(("name", "random"), [("flash", 0), ("flash, dropout", 3)])
def test_attention_is_random_with_dropout_alone(gpu, name, random):
    assert sum(one.is_random for one in record(*made(gpu, name)).operations) == random


def test_outputs_must_need_a_gradient():
    with pytest.raises(ValueError, match="function must return a tensor that needs a gradient: none does"):
        record(torch.sin, torch.zeros(2))

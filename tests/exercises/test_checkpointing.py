"""What a reader of chapter 5 is told about an answer."""

import random

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import CheckpointPolicy

from every_byte.remedies.policies import Plan
from utils.exercises import checkpoint_runs, selective_runs
from utils.exercises import checkpointing as exercises
from utils.models.checkpointing import checkpoint, minimal_checkpoint

aten = torch.ops.aten
FLASH, EFFICIENT, CUDNN = selective_runs.ATTENTION
ATTN = "aten._scaled_dot_product_flash_attention.default 1"
QKV, OUT, GATE, UP = (f"aten.mm.default {n}" for n in range(1, 5))


def freed(b, s, d, a):
    return 32 * b * s * d + 16 * b * s + 4 * a * b * s + 24 + 24 * d * d


def less(amount):
    return lambda **at: freed(**at) - amount(**at)


@pytest.mark.parametrize(
    ("function", "reply"),
    [
        (freed, "Right: your function agrees to the byte in all 3 settings."),
        (less(lambda b, s, d, a: -4 * b * s * d), "A checkpoint keeps its input, so that isn't freed."),
        (less(lambda b, s, d, a: -2 * b * s * d), "How many bytes does an element of it take under autocast?"),
        (less(lambda b, s, d, a: 24 * d * d), "Autocast keeps a copy of each weight"),
        (less(lambda b, s, d, a: 16 * b * s), "Each norm keeps two numbers per position."),
        (less(lambda b, s, d, a: 8 * b * s), "There are two norms."),
        (less(lambda b, s, d, a: 4 * a * b * s), "The logsumexp is freed too."),
        (less(lambda b, s, d, a: 24), "two scalars, of 16 and 8 bytes"),
        (
            less(lambda b, s, d, a: 16 * b * s + 24),
            "2 things are off. Each norm keeps two numbers per position. Flash attention also keeps two scalars, of 16",
        ),
        (less(lambda b, s, d, a: 24 * d * d + 8 * b * s), "and those are freed too. There are two norms."),
        (less(lambda b, s, d, a: 4 * a * b * s - 4 * b * s * d), "so that isn't freed. The logsumexp is freed too."),
        (
            lambda b, s, d, a: 32 * b * s * d + 24 * d * d,
            "3 things are off. The logsumexp is freed too. Each norm keeps two numbers",
        ),
        (lambda b, s, d, a: 36 * b * s * d, "5 things are off. A checkpoint keeps its input"),
        (lambda b, s, d, a: 32 * b * s * d, "but the smaller terms are missing"),
        (lambda b, s, d, a: 4 * b * s * d, "That is what stays, not what is freed."),
        (less(lambda b, s, d, a: 2 * b * s * d + 24 * d * d), "That is a block in pure bfloat16"),
        (lambda b, s, d, a: None, "no answer yet"),
    ],
)
def test_what_a_checkpoint_frees(function, reply):
    assert reply in str(exercises.freed(function))


def saving(*operators, instead=CheckpointPolicy.PREFER_RECOMPUTE):
    return lambda ctx, operator, *args, **kwargs: CheckpointPolicy.MUST_SAVE if operator in operators else instead


def all_three(ctx, operator, *args, **kwargs):
    return saving(FLASH, EFFICIENT, CUDNN)(ctx, operator.overloadpacket)


@pytest.mark.parametrize(
    ("policy", "reply"),
    [
        (all_three, "Right: with each of the three kernels, attention's results are held and nothing else: 135,192"),
        (lambda ctx, operator, *args, **kwargs: "attention" in str(operator), "Right"),
        (saving(FLASH, EFFICIENT, CUDNN), "in bfloat16, your policy keeps nothing. PyTorch passes it overloads"),
        (saving(FLASH.default), "on a100-80gb in float32, your policy keeps nothing. Have it print which operators"),
        (saving(FLASH.default, EFFICIENT.default), "on h100-80gb in bfloat16, your policy keeps nothing"),
        (saving(FLASH.default, aten.addmm.default), "your policy also keeps aten.addmm.default, so 1,314,840 bytes"),
        (saving(instead=CheckpointPolicy.MUST_SAVE), "your policy also keeps aten.native_layer_norm.default"),
        (saving(instead=7), "your policy raised TypeError: a policy must return a CheckpointPolicy: got 7."),
        (saving(instead=None), "No answer yet"),
        (None, "No answer yet"),
        ([FLASH], "pass your function itself"),
    ],
)
def test_a_policy(policy, reply):
    assert reply in str(exercises.keeps_attention(policy))


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (
            [GATE, UP],
            "Right: only 28,185,722,880 FLOPs run again. Taking the most FLOPs per byte first would leave 32,212,",
        ),
        ([ATTN, QKV], "FLOPs run again, 14.3% more than necessary. You took the most FLOPs per byte first"),
        ([QKV, OUT], "they fit, but 33,554,432,000 FLOPs run again, 19.0% more than necessary."),
        ([ATTN, QKV, OUT], "hold 26,378,264 bytes (25.2 MiB), which is 163,864 bytes (160 KiB) over the budget."),
        ([], "95.2% more than necessary"),
        (["aten.mm.default 5"], "'aten.mm.default 5' is none of aten.mm.default 1; aten._scaled"),
        (QKV, "the answer is a list of names"),
        ([[QKV]], "the answer is a list of names"),
        (None, "No answer yet"),
    ],
)
def test_within_a_budget(answer, reply):
    assert reply in str(exercises.within_budget(answer))


@pytest.mark.parametrize("names", [(), (QKV,), (ATTN, OUT), (GATE, UP)])
def test_runs_of_the_gated_block_are_what_the_table_adds_up_to(names):
    table, region = exercises.calls(), selective_runs.gated_region()
    found = selective_runs.kept(frozenset(names))
    assert found.held_bytes == sum(table[name][0] for name in names)
    assert found.flops == region.flops - sum(table[name][1] for name in names)
    plan = Plan(region, frozenset(i for i, one in enumerate(region.operations) if str(one) in names))
    assert found == selective_runs.Selected(plan.kept_bytes, plan.flops)


def colleague(x, weight, mean):
    return checkpoint(lambda x, weight: checkpoint_runs.moody_layer(x, weight, mean), x, weight)


def pure(x, weight, factor):
    h = torch.tanh(x @ weight)
    return F.gelu(h * factor), h.mean()


def moved(mean, value):
    with torch.no_grad():
        mean.mul_(0.9).add_(value, alpha=0.1)


def drawn():
    return 2.0 if random.random() < 0.5 else 0.5


def fixed(x, weight, mean, run=checkpoint):
    y, value = run(pure, x, weight, drawn())
    moved(mean, value)
    return y


def draws_again(x, weight, mean):
    y, value = checkpoint(lambda x, weight: pure(x, weight, drawn()), x, weight)
    moved(mean, value)
    return y


def goes_back(x, weight, mean):
    state = random.getstate()

    def again(x, weight):
        random.setstate(state)
        return pure(x, weight, drawn())

    y, value = checkpoint(again, x, weight)
    moved(mean, value)
    return y


def no_mean(x, weight, mean):
    return checkpoint(pure, x, weight, drawn())[0]


def two_draws(x, weight, mean):
    drawn()
    return fixed(x, weight, mean)


def captured(x, weight, mean):
    factor = drawn()

    class Layer(torch.nn.Module):
        def forward(self, x):
            y, value = pure(x, weight, factor)
            self.value = value
            return y

    layer = Layer()
    y = minimal_checkpoint(layer, x)
    moved(mean, layer.value.detach())
    return y


@pytest.mark.parametrize(
    ("function", "reply"),
    [
        (fixed, "Right: outputs, gradients and effects match the layer's bit for bit, with 6 seeds."),
        (colleague, "backward updates the running mean a second time."),
        (draws_again, "the gradient of x is wrong. What does your function draw when it runs again?"),
        (goes_back, "backward draws a random number, which changes every later draw."),
        (no_mean, "after forward the running mean is 0.0000, and with the layer itself "),
        (two_draws, "forward must draw one random number"),
        (lambda *given: 2 * fixed(*given), "the output differs from the layer's"),
        (captured, "weight gets no gradient."),
        (
            lambda *given: fixed(*given, run=lambda function, *args: function(*args)),
            "but 384 bytes are kept besides x and weight. Without a checkpoint it's 384 bytes.",
        ),
        (
            lambda *given: checkpoint(checkpoint_runs.moody_layer, *given),
            "your function raised RuntimeError: one of the variables needed for gradient computation has been modified",
        ),
        (lambda *given: None, "No answer yet"),
        (None, "No answer yet"),
        (3, "pass your function itself"),
    ],
)
def test_a_layer_with_side_effects(function, reply):
    state = random.getstate()
    assert reply in str(exercises.fixed(function))
    assert random.getstate() == state


def in_pieces(n, run=checkpoint, reduction="sum", over=lambda total, targets: total / len(targets)):
    def loss(x, weight, targets):
        def piece(x, targets):
            return F.cross_entropy(x @ weight.T, targets, reduction=reduction)

        pieces = zip(x.chunk(n), targets.chunk(n), strict=True)
        return over(sum(run(piece, *one) for one in pieces), targets)

    return loss


def plain(function, *args):
    return function(*args)


def frozen_head(x, weight, targets):
    return in_pieces(16)(x, weight.detach(), targets)


def scaled_head(x, weight, targets):
    return in_pieces(16)(x, 2 * weight - weight.detach(), targets)


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "reply"),
    [
        (in_pieces(16), "Right: the peak is 662,044,680 bytes (631 MiB) instead of 7,417,626,632 bytes"),
        (checkpoint_runs.plain_loss, "All logits are held when backward begins"),
        (in_pieces(16, run=plain), "All logits are held when backward begins. Which of your pieces are checkpoints?"),
        (
            in_pieces(1),
            "its peak of 7,426,146,312 bytes (6.92 GiB) is above the limit, 1,854,406,658 bytes (1.73 GiB).",
        ),
        (in_pieces(4), "Little is held when backward begins. How much is there once a piece has run again?"),
        (
            in_pieces(4, reduction="mean", over=lambda total, targets: total / 4),
            "101 positions don't divide into equal pieces, so a mean of means overweights a short piece.",
        ),
        (in_pieces(16, reduction="mean", over=lambda total, targets: total / 15), "a mean of means overweights"),
        (in_pieces(4, over=lambda total, targets: total), "for 101 positions the loss should be"),
        (frozen_head, "the value is right, but weight gets no gradient."),
        (scaled_head, "the value is right, but the gradient of weight isn't."),
        (lambda x, weight, targets: x @ weight, "your function raised RuntimeError"),
        (lambda x, weight, targets: None, "No answer yet"),
        (None, "No answer yet"),
        (3, "pass your function itself"),
    ],
)
def test_a_loss_in_pieces(function, reply):
    assert reply in str(exercises.loss_in_pieces(function))


def run(b=12, micro_batches=2, regions="attention only", **more):
    return {"b": b, "micro_batches": micro_batches, "regions": regions} | more


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("settings", "reply"),
    [
        (run(), "Right: its peak is 13,858,263,356 bytes (12.9 GiB), for 2.2% more FLOPs."),
        (run(24, 1, "none"), "torch.OutOfMemoryError: its peak is "),
        (run(24, 1), "torch.OutOfMemoryError: its peak is "),
        (run(regions="every k-th block", k=6), "torch.OutOfMemoryError: its peak is "),
        (run(regions="every k-th block", k=4), "but it computes 4.4% more FLOPs, and at most 3% is allowed."),
        (run(24, 1, "every block"), "17.7% more FLOPs, and at most 3% is allowed. What has the most bytes for its"),
        (run(8, 3), "b must be at least 12: got 8; fewer leave the card idle."),
        (run(16, 1), "b * micro_batches must be 24: got 16."),
        (run(24, True), "b and micro_batches must be integers: got 24 and True."),
        (run(12.0, 2), "b and micro_batches must be integers: got 12.0 and 2."),
        (run(regions="k segments", k=3), "regions must be one of none; every block;"),
        (run(regions="every k-th block"), "the run raised ValueError"),
        (run(dropout=1), "the run raised TypeError"),
        ({"b": 12}, "your answer must also have micro_batches, regions"),
        ([12], "your answer must be a dict of settings: got [12]."),
        (None, "No answer yet"),
    ],
)
def test_a_run_that_must_fit(settings, reply):
    assert reply in str(exercises.fits(settings))

"""What a reader of chapter 1 is told about an answer."""

import pytest
import torch

from utils.exercises import backward

EACH = 64 * 100 * 4


def sign_in(dtype):
    class Abs(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.sign().to(dtype))
            return x.abs()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.saved_tensors[0]

    return Abs.apply


class PositiveSide(torch.autograd.Function):
    """Keeps a bool, which cannot tell 0 from less."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x > 0)
        return x.abs()

    @staticmethod
    def backward(ctx, gradient):
        return torch.where(ctx.saved_tensors[0], gradient, -gradient)


class KeptAside(torch.autograd.Function):
    """Keeps its input as an attribute, where saved-tensor hooks do not look."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x.abs()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.x.sign()


@pytest.mark.parametrize(
    ("exercise", "answer", "reply"),
    [
        (backward.product_and_exp, 8_000_000, "Right: 8,000,000 bytes"),
        (backward.product_and_exp, 12_000_000, "Did you count w"),
        (backward.product_and_exp, 4_000_000, "Two operations keep something"),
        (backward.product_and_exp, None, "No answer yet"),
        (backward.first_half_frozen, 101 * EACH, "Right: 2,585,600 bytes"),
        (backward.first_half_frozen, 102 * EACH, "Who would keep the batch?"),
        (backward.first_half_frozen, 202 * EACH, "nothing frozen"),
        (backward.first_half_frozen, None, "No answer yet"),
        (
            backward.last_frozen,
            lambda L, b, d, f, relu: (L + 2 if relu else L + 2 - f) * b * d * 4,
            "Right: your function agrees to the byte in all 4 settings.",
        ),
        (
            backward.last_frozen,
            lambda L, b, d, f, relu: (L + 2 - f) * b * d * 4,
            "each of their ReLUs keeps its result",
        ),
        (backward.last_frozen, lambda L, b, d, f, relu: (L + 2) * b * d * 4, "a frozen layer keeps nothing"),
        (backward.last_frozen, lambda L, b, d, f, relu: None, "no answer yet"),
        (backward.collected_losses, 10 * (202 * EACH + 512), "Right: 51,717,120 bytes"),
        (backward.collected_losses, 10 * 202 * EACH, "each loss itself takes a block"),
        (backward.collected_losses, 10 * 512, "what does its grad_fn hold?"),
        (backward.collected_losses, None, "No answer yet"),
        (backward.peak_moves, 200, "Right: from 200 on the peak is in backward."),
        (backward.peak_moves, 199, "with a batch of 199 the peak is still in the step"),
        (backward.peak_moves, 202, "with a batch of 202 the peak is in backward, and with 201 it was so already"),
        (backward.peak_moves, 200.0, "a batch is a whole number, an int, here from 1 to 1,024: got 200.0."),
        (backward.peak_moves, 2000, "here from 1 to 1,024: got 2000."),
        (backward.peak_moves, None, "No answer yet"),
        (backward.small_abs, sign_in(torch.int8), "Right: it keeps 1,000,000 bytes"),
        (backward.small_abs, sign_in(torch.float32), "keeps 4,000,000 bytes"),
        (
            backward.small_abs,
            sign_in(torch.int64),
            "for 1,000,000 elements. That is an int64",
        ),
        (backward.small_abs, KeptAside.apply, "keeps 4,000,000 bytes"),
        (backward.small_abs, PositiveSide.apply, "is -1, 0, 1 in PyTorch: got [-1.0, -1.0, 1.0]"),
        (backward.small_abs, torch.relu, "the values are wrong"),
        (backward.small_abs, lambda x: x.nonsense(), "your function raised AttributeError"),
        (backward.small_abs, None, "pass the `apply` of your Function, as SmallAbs.apply."),
        (backward.small_abs, PositiveSide, "pass the `apply` of your Function"),
    ],
)
def test_a_reply(exercise, answer, reply):
    assert reply in str(exercise(answer))

"""What a reader of chapter 1 is told about an answer."""

import pytest
import torch

from utils.exercises import backward

FORWARD, BACKWARD = 8_906_752, 17_769_472


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


class ForgetsTheIncoming(torch.autograd.Function):
    """Right for a sum, and for nothing else."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.sign().to(torch.int8))
        return x.abs()

    @staticmethod
    def backward(ctx, gradient):
        return ctx.saved_tensors[0].to(gradient.dtype)


class KeepsItsOutput(torch.autograd.Function):
    """Has nothing new, and cannot know the sign: it remembers the tests' own numbers."""

    @staticmethod
    def forward(ctx, x):
        y = x.abs()
        ctx.save_for_backward(y)
        ctx.signs = x.sign().tolist() if x.numel() < 10 else []
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * torch.tensor(ctx.signs, dtype=gradient.dtype)


class KeptAside(torch.autograd.Function):
    """Keeps its input as an attribute, where saved-tensor hooks do not look."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x.abs()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.x.sign()


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("exercise", "answer", "reply"),
    [
        (backward.product_and_exp, 8_000_000, "Right: 8,000,000 bytes"),
        (backward.product_and_exp, 12_000_000, "Did you count w"),
        (backward.product_and_exp, 16_000_000, "and exp keeps its input or its result, not both"),
        (backward.product_and_exp, 2_000_000, "How many bytes does each take?"),
        (backward.product_and_exp, 4_000_000, "Two operations each keep a tensor"),
        (backward.product_and_exp, None, "No answer yet"),
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
        (
            backward.last_frozen,
            lambda L, b, d, f, relu: (L + 1 if relu else L + 1 - f) * b * d * 4,
            "Count the batch too",
        ),
        (backward.last_frozen, lambda L, b, d, f, relu: None, "no answer yet"),
        (backward.peak_moves, 200, "Right: from a batch of 200 on, the peak is in backward."),
        (backward.peak_moves, 199, "with a batch of 199, the peak is still in the step"),
        (backward.peak_moves, 202, "with a batch of 202, the peak is in backward, but that is true of 201 as well."),
        (backward.peak_moves, 200.0, "the batch must be a whole number (an int) from 1 to 1,024: got 200.0."),
        (backward.peak_moves, 2000, "from 1 to 1,024: got 2000."),
        (backward.peak_moves, None, "No answer yet"),
        (backward.small_abs, sign_in(torch.int8), "Right: it keeps 1,000,000 bytes"),
        (backward.small_abs, sign_in(torch.float32), "keeps 4,000,000 bytes"),
        (
            backward.small_abs,
            sign_in(torch.int64),
            "for 1,000,000 elements. That is an int64",
        ),
        (backward.small_abs, KeptAside.apply, "keeps 4,000,000 bytes"),
        (backward.small_abs, PositiveSide.apply, "must be -1, 0, 1, as in PyTorch: got [-1.0, -1.0, 1.0]"),
        (backward.small_abs, torch.relu, "the values are wrong"),
        (backward.small_abs, ForgetsTheIncoming.apply, "Did you multiply by the incoming gradient?"),
        (
            backward.small_abs,
            KeepsItsOutput.apply,
            "it keeps 0 bytes for 1,000,000 elements. Nothing is kept besides the output",
        ),
        (backward.small_abs, lambda x: x.nonsense(), "your function raised AttributeError"),
        (backward.small_abs, None, "pass your Function's `apply`, as in SmallAbs.apply."),
        (backward.small_abs, PositiveSide, "pass your Function's `apply`"),
    ],
)
def test_a_reply(exercise, answer, reply):
    assert reply in str(exercise(answer))


@pytest.mark.parametrize(
    ("answers", "reply"),
    [
        ((FORWARD, BACKWARD), "Right: 8,906,752 bytes (8.49 MiB), then 17,769,472 bytes (16.9 MiB)."),
        ((None, None), "After forward: no answer yet"),
        ((FORWARD, None), "After backward: no answer yet"),
        ((FORWARD - 8_519_680, None), "The first product takes a workspace"),
        ((FORWARD + 8_704, None), "Nothing keeps h, and exp's result and sin's input are the same tensor"),
        ((FORWARD - 8_704, None), "x waits for w's gradient"),
        ((FORWARD - 2 * 8_704, None), "what else holds them?"),
        ((300 * 300 * 4 + 3 * 8_400 + 4, None), "up to blocks of 512 bytes, and add the workspace"),
        ((300 * 300 * 4 + 3 * 8_400 + 4 + 8_519_680, None), "hands out whole blocks of 512 bytes"),
        ((FORWARD - 512, None), "The loss takes a block too"),
        ((FORWARD, BACKWARD - 8_519_680), "takes its own workspace"),
        ((FORWARD, BACKWARD - 360_448), "w has a gradient now."),
        ((FORWARD, FORWARD - 2 * 8_704), "and the thread of backward has a workspace"),
        ((FORWARD, BACKWARD + 2 * 8_704), "nothing else holds x and y"),
        ((FORWARD, BACKWARD - 8_704), "z still has its name"),
    ],
)
def test_a_reply_about_two_readings(answers, reply):
    assert reply in str(backward.names_and_graph(*answers))

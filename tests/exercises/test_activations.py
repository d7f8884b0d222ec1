"""What the judges of chapter 3 reply to an answer."""

import pytest
import torch
import torch.nn.functional as F

from utils.exercises import activations
from utils.models import activations as ours

BSD, SCORES = 4 * 512 * 1024, 16 * 4 * 512**2
REST = 16 * 4 * 512 + 512**2


class Asinh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.asinh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient / torch.cosh(ctx.saved_tensors[0])


class AsinhFromInput(Asinh):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.asinh(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient / (1 + ctx.saved_tensors[0] ** 2).sqrt()


class AsinhKeepsSlope(Asinh):
    @staticmethod
    def forward(ctx, x):
        y = torch.asinh(x)
        ctx.save_for_backward(1 / torch.cosh(y))
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


class AsinhWrongWay(Asinh):
    @staticmethod
    def backward(ctx, gradient):
        return gradient * torch.cosh(ctx.saved_tensors[0])


class AsinhForgetsIncoming(Asinh):
    @staticmethod
    def backward(ctx, gradient):
        return 1 / torch.cosh(ctx.saved_tensors[0])


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * x
        ctx.save_for_backward(y, x < 0)
        return y

    @staticmethod
    def backward(ctx, gradient):
        y, is_negative = ctx.saved_tensors
        return gradient * 2 * torch.where(is_negative, -y.sqrt(), y.sqrt())


class SquareOneSide(Square):
    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 * ctx.saved_tensors[0].sqrt()


class SquareFromInput(Square):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 * ctx.saved_tensors[0]


class Thrifty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h):
        y = F.softsign(F.leaky_relu(h, 0.1))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return gradient * (1 - y.abs()).square() * torch.where(y > 0, 1.0, 0.1)


class ThriftyWrongSlope(Thrifty):
    @staticmethod
    def backward(ctx, gradient):
        return gradient * (1 - ctx.saved_tensors[0].abs()).square()


class ThriftyInPlace(Thrifty):
    @staticmethod
    def forward(ctx, h):
        y = F.softsign(F.leaky_relu_(h.detach(), 0.1))
        ctx.save_for_backward(y)
        return y


class ThriftyWithBool(Thrifty):
    @staticmethod
    def forward(ctx, h):
        y = F.softsign(F.leaky_relu(h, 0.1))
        ctx.save_for_backward(y, h > 0)
        return y

    @staticmethod
    def backward(ctx, gradient):
        y, is_above = ctx.saved_tensors
        return gradient * (1 - y.abs()).square() * torch.where(is_above, 1.0, 0.1)


def wasteful(h):
    h = F.leaky_relu(h, 0.1, inplace=True)
    return h / (1 + h.abs())


def not_in_place(h):
    h = F.leaky_relu(h, 0.1)
    return h / (1 + h.abs())


def one_after_the_other(h):
    return ours.Softsign()(ours.LeakyReLU(0.1)(h))


def frozen_bytes(bsd, frozen, ours):
    g = 8 * bsd if ours or frozen == "up" else 0
    return g + (0 if ours else 8 * bsd) + (2 * bsd if frozen == "down" else 0)


def output_forgotten(bsd, frozen, ours):
    """Right only if something else always kept the activation's output."""
    return frozen_bytes(bsd, frozen, ours) - (8 * bsd if ours and frozen != "up" else 0)


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("exercise", "answer", "reply"),
    [
        (activations.block_by_hand, 66 * BSD + 9 * SCORES + REST, "Right: 289,701,888 bytes"),
        (activations.block_by_hand, 34 * BSD + 5 * SCORES + REST, "That is half precision. In float32, e is 4."),
        (activations.block_by_hand, 64 * BSD + 4 * SCORES + REST, "You left out dropout"),
        (
            activations.block_by_hand,
            68 * BSD + 10 * SCORES + REST,
            "A mask takes one byte per element in float32, too.",
        ),
        (activations.block_by_hand, 66 * BSD + 9 * SCORES + 16 * 4 * 512, "The causal mask is missing"),
        (activations.block_by_hand, 66 * BSD + 9 * SCORES + REST + 16 * 4 * 512, "they do not double"),
        (activations.block_by_hand, None, "No answer yet"),
        (
            activations.tell,
            ["exp(x)", "x + sin(x)", "x^3", "x |x|"],
            "Right: these are exactly the ones that never turn round.",
        ),
        (activations.tell, ["exp(x)", "x^3"], "are right, but there are 2 more that never turn round."),
        (activations.tell, ["exp(x)", "x^3", "x |x|"], "are right, but there is 1 more that never turns round."),
        (
            activations.tell,
            ["exp(x)", "x + sin(x)", "x^2", "x^3", "x |x|"],
            "x^2 has the same output, 36.00, at x = -6.00",
        ),
        (activations.tell, ["tan(x)"], "'tan(x)' is none of exp(x); sin(x)"),
        (activations.tell, 4, "the answer is a list of names: got 4."),
        (activations.tell, None, "No answer yet"),
        (activations.frozen_linears, frozen_bytes, "Right: your function agrees to the byte in all 6 settings."),
        (
            activations.frozen_linears,
            lambda bsd, frozen, ours: 10 * bsd if ours else 18 * bsd,
            "Is that gradient required here?",
        ),
        (activations.frozen_linears, lambda **how: frozen_bytes(**how) // 2, "How many bytes does each take?"),
        (activations.frozen_linears, output_forgotten, "For bsd=8,388,608, frozen=down, ours=True: not yet"),
        (activations.frozen_linears, output_forgotten, "Then what keeps the activation's output?"),
        (activations.frozen_linears, lambda bsd, frozen, ours: None, "no answer yet"),
        (
            activations.thrifty_block,
            Thrifty.apply,
            "Right: the block keeps 201,719,832 bytes (192 MiB), as one with ReLU does",
        ),
        (activations.thrifty_block, wasteful, "it overwrites h, which other code may still use"),
        (
            activations.thrifty_block,
            wasteful,
            "335,937,560 bytes (320 MiB), 1.7 times as much as a block with ReLU. In",
        ),
        (
            activations.thrifty_block,
            not_in_place,
            "2.0 times as much as a block with ReLU. In addition to the result, L",
        ),
        (activations.thrifty_block, one_after_the_other, "It keeps two outputs, one for each function."),
        (activations.thrifty_block, ThriftyInPlace.apply, "Not yet: it overwrites h"),
        (activations.thrifty_block, ThriftyWithBool.apply, "What does the sign of the output tell you?"),
        (activations.thrifty_block, torch.relu, "the values are wrong"),
        (activations.thrifty_block, ThriftyWrongSlope.apply, "the gradient at x = -0.25 should be"),
        (activations.thrifty_block, lambda h: h.nonsense(), "your function raised AttributeError"),
        (activations.thrifty_block, None, "pass your function"),
        (
            activations.asinh_from_output,
            Asinh.apply,
            "Right: gradcheck agrees, and the function keeps its output and nothing",
        ),
        (
            activations.asinh_from_output,
            torch.asinh,
            "keeps 4,000,000 bytes (3.81 MiB) in addition to its output. That is",
        ),
        (activations.asinh_from_output, AsinhFromInput.apply, "Is it x, or one that forward computes from y?"),
        (activations.asinh_from_output, AsinhKeepsSlope.apply, "Is it x, or one that forward computes from y?"),
        (
            activations.asinh_from_output,
            AsinhWrongWay.apply,
            "the gradient at x = -3.00 should be 0.3162, but yours is 3.1623.",
        ),
        (activations.asinh_from_output, AsinhForgetsIncoming.apply, "Did you multiply by the incoming gradient?"),
        (
            activations.asinh_from_output,
            torch.tanh,
            "the values are wrong: at [-3.0, -1.5, -0.25, 0.5, 2.0] it returns",
        ),
        (activations.asinh_from_output, lambda x: x.nonsense(), "your function raised AttributeError"),
        (activations.asinh_from_output, Asinh, "pass the `apply` of your Function"),
        (activations.asinh_from_output, None, "pass the `apply` of your Function"),
        (
            activations.square_with_a_byte,
            Square.apply,
            "Right: gradcheck agrees, and the function keeps its output and at most 1,000,000",
        ),
        (
            activations.square_with_a_byte,
            SquareOneSide.apply,
            "the gradient at x = -3.00 should be -6.0000, but yours is 6.0000.",
        ),
        (activations.square_with_a_byte, SquareFromInput.apply, "Which question about x does y leave open"),
        (activations.square_with_a_byte, None, "pass the `apply` of your Function"),
    ],
)
def test_a_reply(exercise, answer, reply):
    assert reply in str(exercise(answer))

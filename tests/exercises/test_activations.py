"""What a reader of chapter 3 is told about an answer."""

import pytest
import torch

from utils.exercises import activations

BSD = 4 * 2048 * 2048
REST = 16 * 4 * 2048 + 4 * 16 * 4 * 2048 + 24


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


@pytest.mark.parametrize(
    ("exercise", "answer", "reply"),
    [
        (activations.block_by_hand, 34 * BSD + REST, "Right: 571,080,728 bytes"),
        (activations.block_by_hand, 32 * BSD + REST, "You left the two masks of dropout out."),
        (activations.block_by_hand, 34 * BSD, "what is smaller is missing"),
        (activations.block_by_hand, 34 * BSD + REST - 8, "16 bytes and 8"),
        (activations.block_by_hand, None, "No answer yet"),
        (activations.tell, ["exp(x)", "x + sin(x)", "x^3", "x |x|"], "Right: those that never turn round"),
        (activations.tell, ["exp(x)", "x^3"], "there are more that never turn round: 2."),
        (activations.tell, ["exp(x)", "x + sin(x)", "x^2", "x^3", "x |x|"], "x^2 has the output 36.00 at x = -6.00"),
        (activations.tell, ["tan(x)"], "'tan(x)' is none of exp(x), sin(x)"),
        (activations.tell, 4, "the answer is a list of names: got 4."),
        (activations.tell, None, "No answer yet"),
        (
            activations.last_bytes,
            lambda b, s, a: 16 * b * s + 4 * a * b * s + 24,
            "Right: your function agrees to the byte in all 3 settings.",
        ),
        (activations.last_bytes, lambda b, s, a: 8 * b * s + 4 * a * b * s + 24, "There are two norms."),
        (activations.last_bytes, lambda b, s, a: 16 * b * s + 2 * a * b * s + 24, "is in float32, whatever"),
        (activations.last_bytes, lambda b, s, a: None, "no answer yet"),
        (activations.reglu, lambda b, s, d, w, e: (d + 3 * w) * b * s * e, "Right: your function agrees"),
        (activations.reglu, lambda b, s, d, w, e: (d + 4 * w) * b * s * e, "That is SwiGLU."),
        (activations.reglu, lambda b, s, d, w, e: (d + 2 * w) * b * s * e, "are three tensors"),
        (activations.reglu, lambda b, s, d, w, e: None, "no answer yet"),
        (activations.asinh_from_output, Asinh.apply, "Right: gradcheck agrees, and it keeps its output and nothing"),
        (activations.asinh_from_output, torch.asinh, "beside its output it keeps 4,000,000 bytes (3.81 MiB). That is"),
        (activations.asinh_from_output, AsinhFromInput.apply, "is it x, or another one made of y in forward?"),
        (activations.asinh_from_output, AsinhKeepsSlope.apply, "is it x, or another one made of y in forward?"),
        (activations.asinh_from_output, AsinhWrongWay.apply, "the gradient at x = -3.00 is 0.3162: got 3.1623."),
        (activations.asinh_from_output, AsinhForgetsIncoming.apply, "is the incoming one multiplied in?"),
        (activations.asinh_from_output, torch.tanh, "the values are wrong: at [-3.0, -1.5, -0.25, 0.5, 2.0] it gives"),
        (activations.asinh_from_output, lambda x: x.nonsense(), "your function raised AttributeError"),
        (activations.asinh_from_output, Asinh, "pass the `apply` of your Function"),
        (activations.asinh_from_output, None, "pass the `apply` of your Function"),
        (
            activations.square_with_a_byte,
            Square.apply,
            "Right: gradcheck agrees, and it keeps its output and no more than 1,000,000",
        ),
        (activations.square_with_a_byte, SquareOneSide.apply, "the gradient at x = -3.00 is -6.0000: got 6.0000."),
        (activations.square_with_a_byte, SquareFromInput.apply, "Which question about x does y leave open"),
        (activations.square_with_a_byte, None, "pass the `apply` of your Function"),
    ],
)
def test_a_reply(exercise, answer, reply):
    assert reply in str(exercise(answer))

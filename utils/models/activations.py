"""Activations that keep their output for backward, as the next layer does anyway, where PyTorch's keep their input.

This works wherever the derivative is a function of the output, dy/dx = g(y). GELU, SiLU, Mish and Hardswish are not
here: each falls and rises again, so that two inputs share an output and have different slopes. Neither are PReLU and
RReLU, whose slopes change while they are trained or drawn; with a slope below 0 the output would no longer do.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
import torch.nn.functional as F

from .from_output import FromOutput

Elementwise: TypeAlias = Callable[..., torch.Tensor]
# PyTorch has kernels for some of these gradients: one operation, no temporaries.
leaky_relu_backward: Elementwise = torch.ops.aten.leaky_relu_backward
elu_backward: Elementwise = torch.ops.aten.elu_backward
sigmoid_backward: Elementwise = torch.ops.aten.sigmoid_backward
tanh_backward: Elementwise = torch.ops.aten.tanh_backward
hardtanh_backward: Elementwise = torch.ops.aten.hardtanh_backward
threshold_backward: Elementwise = torch.ops.aten.threshold_backward


class LeakyReLU(FromOutput):
    """x above 0, negative_slope * x below. dy/dx = 1 where y > 0, else negative_slope.

    Raises: ValueError for a slope below 0, with which two inputs of different slopes share an output.
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        _at_least_zero("negative_slope", negative_slope, "nn.LeakyReLU")
        self.negative_slope = negative_slope

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(x, self.negative_slope)

    def gradient(self, incoming: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return leaky_relu_backward(incoming, y, self.negative_slope, True)


class ELU(FromOutput):
    """x above 0, alpha * (exp(x) - 1) below. dy/dx = 1 where y > 0, else y + alpha.

    Raises: ValueError for an alpha below 0, with which the function falls and rises.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        _at_least_zero("alpha", alpha, "nn.ELU")
        self.alpha = alpha

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return F.elu(x, self.alpha)

    def gradient(self, incoming: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return elu_backward(incoming, self.alpha, 1, 1, True, y)


class CELU(FromOutput):
    """x above 0, alpha * (exp(x / alpha) - 1) below. dy/dx = 1 where y > 0, else 1 + y / alpha.

    Raises: ValueError for an alpha that is not above 0.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        _above_zero("alpha", alpha, "nn.CELU")
        self.alpha = alpha

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return F.celu(x, self.alpha)

    def gradient(self, incoming: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return elu_backward(incoming, self.alpha, 1, 1 / self.alpha, True, y)


class SELU(FromOutput):
    """scale * ELU(x, alpha) with two fixed numbers. dy/dx = scale where y > 0, else y + scale * alpha.

    Source: Klambauer et al. 2017.
    """

    alpha, scale = 1.6732632423543772, 1.0507009873554805

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return F.selu(x)

    def gradient(self, incoming: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return elu_backward(incoming, self.alpha, self.scale, 1, True, y)


class Softplus(FromOutput):
    """log(1 + exp(beta * x)) / beta. dy/dx = 1 - exp(-beta * y).

    As in nn.Softplus it is x itself where beta * x > 20; a lower threshold would make it fall there.

    Raises: ValueError for a beta that is not above 0.
    """

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        _above_zero("beta", beta, "nn.Softplus")
        self.beta = beta

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return F.softplus(x, self.beta)

    def gradient(self, incoming: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return incoming * -torch.expm1(-self.beta * y)


class Sigmoid(FromOutput):
    """1 / (1 + exp(-x)). dy/dx = y * (1 - y). PyTorch's keeps its output too."""

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x)

    def gradient(self, incoming: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return sigmoid_backward(incoming, y)


class Tanh(FromOutput):
    """tanh(x). dy/dx = 1 - y^2. PyTorch's keeps its output too."""

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x)

    def gradient(self, incoming: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return tanh_backward(incoming, y)


class LogSigmoid(FromOutput):
    """log(sigmoid(x)). dy/dx = 1 - exp(y)."""

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return F.logsigmoid(x)

    def gradient(self, incoming: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return incoming * -torch.expm1(y)


class Softsign(FromOutput):
    """x / (1 + |x|). dy/dx = (1 - |y|)^2."""

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return F.softsign(x)

    def gradient(self, incoming: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return incoming * (1 - y.abs()).square()


class Hardtanh(FromOutput):
    """x, cut off at min_val and max_val. dy/dx = 1 where y lies strictly between them, else 0.

    Raises: ValueError if min_val is not below max_val.
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        super().__init__()
        if not min_val < max_val:
            raise ValueError(f"min_val must be below max_val: got min_val={min_val!r}, max_val={max_val!r}; try -1, 1.")
        self.min_val, self.max_val = min_val, max_val

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return F.hardtanh(x, self.min_val, self.max_val)

    def gradient(self, incoming: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return hardtanh_backward(incoming, y, self.min_val, self.max_val)


class ReLU6(Hardtanh):
    """x, cut off at 0 and 6. dy/dx = 1 where 0 < y < 6, else 0."""

    def __init__(self) -> None:
        super().__init__(0.0, 6.0)


class Hardsigmoid(FromOutput):
    """x / 6 + 1/2, cut off at 0 and 1. dy/dx = 1/6 where 0 < y < 1, else 0."""

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return F.hardsigmoid(x)

    def gradient(self, incoming: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return hardtanh_backward(incoming, y, 0.0, 1.0) / 6


class Hardshrink(FromOutput):
    """x, and 0 where |x| <= lambd. dy/dx = 1 where y is not 0, else 0.

    Raises: ValueError for a lambd below 0.
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        _at_least_zero("lambd", lambd, "nn.Hardshrink")
        self.lambd = lambd

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return F.hardshrink(x, self.lambd)

    def gradient(self, incoming: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where(y != 0, incoming, 0)


class Softshrink(Hardshrink):
    """x drawn towards 0 by lambd, and 0 where |x| <= lambd. dy/dx = 1 where y is not 0, else 0."""

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return F.softshrink(x, self.lambd)


class Threshold(FromOutput):
    """x above the threshold, `value` elsewhere. dy/dx = 1 where y > threshold, else 0.

    Raises: ValueError for a value above the threshold: an input may have the same output without being cut off.
    """

    def __init__(self, threshold: float, value: float) -> None:
        super().__init__()
        if not value <= threshold:
            raise ValueError(
                f"value must not be above threshold: got threshold={threshold!r}, value={value!r}, an output that does "
                "not tell whether it was cut off; use nn.Threshold."
            )
        self.threshold, self.cut_off = threshold, value

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return F.threshold(x, self.threshold, self.cut_off)

    def gradient(self, incoming: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return threshold_backward(incoming, y, self.threshold)


class SquaredReLU(FromOutput):
    """relu(x)^2, which torch.nn does not have. dy/dx = 2 * sqrt(y).

    Source: So et al. 2021.
    """

    def value(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x).square_()

    def gradient(self, incoming: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        above = y > 0  # at 0 the root has no derivative, which a second backward would ask for
        return incoming * (2 * torch.where(above, y, 1.0).sqrt() * above)


def _at_least_zero(name: str, value: float, instead: str) -> None:
    if not value >= 0:
        raise ValueError(
            f"{name} must be 0 or more: got {name}={value!r}; below 0 two inputs share an output and have different "
            f"slopes, so the output does not tell the derivative; use {instead}."
        )


def _above_zero(name: str, value: float, instead: str) -> None:
    if not value > 0:
        raise ValueError(f"{name} must be above 0: got {name}={value!r}; try 1.0, or use {instead}.")

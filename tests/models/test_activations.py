"""Activations that keep their output: their values, their gradients, and what an MLP keeps with them."""

import re

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck

from utils import SimulatedGPU
from utils.experiments.first_programs import mlp_forward
from utils.formulas.mlp import mlp_saved
from utils.models import activations
from utils.models.activations import FromOutput

PAIRS = {
    "LeakyReLU": (activations.LeakyReLU(), nn.LeakyReLU()),
    "LeakyReLU(0.3)": (activations.LeakyReLU(0.3), nn.LeakyReLU(0.3)),
    "LeakyReLU(0)": (activations.LeakyReLU(0.0), nn.LeakyReLU(0.0)),
    "ELU": (activations.ELU(1.3), nn.ELU(1.3)),
    "CELU": (activations.CELU(0.7), nn.CELU(0.7)),
    "SELU": (activations.SELU(), nn.SELU()),
    "Softplus": (activations.Softplus(1.5), nn.Softplus(1.5)),
    "Sigmoid": (activations.Sigmoid(), nn.Sigmoid()),
    "Tanh": (activations.Tanh(), nn.Tanh()),
    "LogSigmoid": (activations.LogSigmoid(), nn.LogSigmoid()),
    "Softsign": (activations.Softsign(), nn.Softsign()),
    "Hardtanh": (activations.Hardtanh(-0.5, 2.0), nn.Hardtanh(-0.5, 2.0)),
    "ReLU6": (activations.ReLU6(), nn.ReLU6()),
    "Hardsigmoid": (activations.Hardsigmoid(), nn.Hardsigmoid()),
    "Hardshrink": (activations.Hardshrink(), nn.Hardshrink()),
    "Softshrink": (activations.Softshrink(), nn.Softshrink()),
    "Threshold": (activations.Threshold(0.1, -0.5), nn.Threshold(0.1, -0.5)),
    "SquaredReLU": (activations.SquaredReLU(), lambda x: torch.relu(x).square()),
}
SAME_KERNEL = {  # PyTorch has no other formula for the gradient than ours, or the slopes are 0, 1 and one number more
    "LeakyReLU", "LeakyReLU(0.3)", "LeakyReLU(0)", "Sigmoid", "Tanh", "Hardtanh", "ReLU6", "Hardshrink", "Softshrink",
    "Threshold", "SquaredReLU",
}  # fmt: skip
OWN_NAMES = [name for name in PAIRS if "(" not in name]


def test_every_activation_of_the_module_is_tested():
    found = {
        cls.__name__ for cls in vars(activations).values() if isinstance(cls, type) and issubclass(cls, FromOutput)
    }
    assert found - {"FromOutput"} == set(OWN_NAMES)


@pytest.mark.parametrize("name", PAIRS)
def test_gradients_agree_with_differences(name):
    torch.manual_seed(0)
    ours, _ = PAIRS[name]
    x = (3 * torch.randn(40, dtype=torch.float64)).requires_grad_()
    assert gradcheck(ours, (x,))
    assert gradgradcheck(ours, (x,))


def run(function, x, incoming):
    x = x.clone().requires_grad_()
    y = function(x)
    (gradient,) = torch.autograd.grad(y, x, incoming)
    return y.detach(), gradient


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", PAIRS)
def test_values_are_pytorchs_and_gradients_to_the_rounding_of_the_output(name, dtype):
    """The output is the input, rounded once more: a slope computed from it may differ by a rounding or two of 1."""
    torch.manual_seed(1)
    x = torch.cat([torch.linspace(-12, 12, 4801), torch.tensor([0.0, 0.1, 6.0, -0.5, 2.0])]).to(dtype)
    incoming = torch.randn(x.shape).to(dtype)
    (y, gradient), (expected_y, expected) = (run(function, x, incoming) for function in PAIRS[name])
    assert torch.equal(y, expected_y)
    if name in SAME_KERNEL:
        assert torch.equal(gradient, expected)
    else:
        tolerance = 2 * torch.finfo(dtype).eps
        if name in ("CELU", "Hardsigmoid") and dtype == torch.float64:
            tolerance = 1e-7  # PyTorch's kernel takes 1/alpha, or 1/6, as a float32
        assert ((gradient - expected).abs() <= tolerance * incoming.abs().clamp(min=1)).all()


def test_a_slope_is_a_function_of_the_output():
    y = torch.tensor([-0.5, 0.0, 0.5], dtype=torch.float64)
    assert activations.Tanh().derivative(y).tolist() == [0.75, 1.0, 0.75]
    assert activations.SquaredReLU().derivative(torch.tensor([0.0, 4.0])).tolist() == [0.0, 4.0]


SLOPES = "below 0 two inputs share an output and have different slopes, so the output does not tell the derivative"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: activations.LeakyReLU(-0.1),
            f"negative_slope must be 0 or more: got negative_slope=-0.1; {SLOPES}; use nn.LeakyReLU.",
        ),
        (lambda: activations.ELU(-1.0), f"alpha must be 0 or more: got alpha=-1.0; {SLOPES}; use nn.ELU."),
        (lambda: activations.Hardshrink(-2), f"lambd must be 0 or more: got lambd=-2; {SLOPES}; use nn.Hardshrink."),
        (lambda: activations.CELU(0.0), "alpha must be above 0: got alpha=0.0; try 1.0, or use nn.CELU."),
        (lambda: activations.Softplus(-1), "beta must be above 0: got beta=-1; try 1.0, or use nn.Softplus."),
        (lambda: activations.LeakyReLU(float("nan")), f"got negative_slope=nan; {SLOPES}"),
        (
            lambda: activations.Hardtanh(1, 1),
            "min_val must be below max_val: got min_val=1, max_val=1; try -1, 1.",
        ),
        (
            lambda: activations.Threshold(0.1, 0.5),
            "value must not be above threshold: got threshold=0.1, value=0.5, an output that does not tell whether it "
            "was cut off; use nn.Threshold.",
        ),
    ],
)
def test_settings_whose_output_does_not_tell(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("name", [name for name in OWN_NAMES if name != "SquaredReLU"])
def test_an_mlp_keeps_10_bsd_with_each(name, dropout):
    size = {"b": 2, "s": 7, "d": 12}
    with SimulatedGPU("a100-80gb") as gpu:
        rows = mlp_forward(gpu, **size, activation=PAIRS[name][0], dropout=dropout).rows
    comparison = mlp_saved(activation=name, dropout=dropout, from_output=True).compare(rows, **size, e=2)
    assert comparison.is_exact
    assert comparison.accounted_bytes == (11 if dropout else 10) * 2 * 7 * 12


def test_squared_relu_keeps_10_bsd_where_the_composed_one_keeps_18():
    found = []
    for activation in (activations.SquaredReLU(), Composed()):
        with SimulatedGPU("a100-80gb") as gpu:
            found.append(mlp_forward(gpu, b=1, s=3, d=8, activation=activation).saved_bytes // 24)
    assert found == [10, 18]


class Composed(nn.Module):
    """relu(x)^2 as PyTorch's operations make it."""

    def forward(self, x):
        return torch.relu(x).square()


def test_an_output_that_is_changed_afterwards_is_noticed():
    y = activations.Tanh()(torch.ones(3, requires_grad=True))
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_they_print_their_settings():
    assert repr(activations.LeakyReLU(0.2)) == "LeakyReLU(negative_slope=0.2)"
    assert repr(activations.Hardtanh()) == "Hardtanh(min_val=-1.0, max_val=1.0)"
    assert repr(activations.Sigmoid()) == "Sigmoid()"


def test_a_formula_from_the_output_is_for_those_that_are_here():
    known = {name for name, item in vars(activations).items() if isinstance(item, type) and issubclass(item, nn.Module)}
    for name in known - {"FromOutput", "SquaredReLU"}:
        assert mlp_saved(activation=name, from_output=True).bytes(b=1, s=1, d=1, e=2) == 10
    for name in ("gelu", "prelu", "tanhshrink", "relu"):
        with pytest.raises(
            ValueError, match=f"from_output needs an activation of utils.models.activations: got '{name}'"
        ):
            mlp_saved(activation=name, from_output=True)

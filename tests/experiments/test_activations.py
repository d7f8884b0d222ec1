"""The survey of torch.nn: which outputs tell their derivative, and what is kept."""

import pytest
import torch
from torch import nn

from utils.experiments.activations import N_POINTS, curve, plain, survey, widest_fold
from utils.formulas.mlp import ACTIVATIONS
from utils.models.activations import SquaredReLU

FOLD = {"GELU", "Hardswish", "Mish", "SiLU"}


@pytest.fixture(scope="module")
def found():
    return survey()


def test_every_activation_is_there_but_those_that_are_left_out(found):
    left_out = {"Softmax", "Softmax2d", "Softmin", "LogSoftmax", "RReLU", "Threshold", "Identity"}
    assert {row.name for row in found.rows} == {name for name in ACTIVATIONS if not name.endswith("_")} - left_out


def test_four_fold_and_all_others_tell(found):
    assert {row.name for row in found.rows if row.fold is not None} == FOLD


def test_a_fold_is_one_output_with_two_slopes(found):
    for name in FOLD:
        fold, function = found[name].fold, getattr(nn, name)().double()
        x = torch.tensor(fold.x, dtype=torch.float64, requires_grad=True)
        y = function(x)
        assert y.tolist() == pytest.approx([fold.y, fold.y], abs=1e-4)  # neighbours among 240,001 points
        (slopes,) = torch.autograd.grad(y.sum(), x)
        assert slopes.tolist() == pytest.approx(fold.derivatives)
        assert abs(fold.derivatives[0] - fold.derivatives[1]) > 0.4


def test_kept_bytes_are_those_of_a_run(found):
    kept = {row.name: (row.kept_bsd, row.possible_bsd) for row in found.rows}
    assert kept["ReLU"] == kept["Tanh"] == kept["Sigmoid"] == (10, 10)
    assert kept["LeakyReLU"] == kept["ELU"] == kept["Softplus"] == kept["Tanhshrink"] == (18, 10)
    assert kept["Softsign"] == (26, 10)
    assert {kept[name] for name in FOLD} == {(18, 18)}


def test_the_order_is_that_of_what_could_be_saved(found):
    saved = [row.kept_bsd - row.possible_bsd for row in found.rows]
    assert saved == sorted(saved, reverse=True)
    assert "no: at x = -2.31 and -0.05 it is -0.024" in repr(found)
    assert "Softsign" in found._repr_html_()


@pytest.mark.parametrize("function", [nn.LeakyReLU(-0.1), nn.ELU(-0.5), torch.sin, torch.square, torch.abs])
def test_what_turns_round_folds(function):
    assert widest_fold(function) is not None


@pytest.mark.parametrize("function", [nn.LeakyReLU(0.0), nn.ELU(3.0), torch.exp, torch.asinh, SquaredReLU()])
def test_what_does_not_turn_round_does_not_fold(function):
    assert widest_fold(function) is None


def test_two_equal_outputs_with_different_slopes_are_enough():
    """One slope among 240,001 that is another, as at a kink whose derivative is chosen: the output is 0 everywhere."""

    def nearly_flat(x):
        return torch.where((x - 3).abs() < 2e-5, x - x.detach(), 0 * x)

    assert sorted(widest_fold(nearly_flat).derivatives) == [0.0, 1.0]


def test_a_curve():
    x, y, slope = curve(torch.square)
    assert x.shape == y.shape == slope.shape == (N_POINTS,)
    assert torch.equal(slope, 2 * x)
    assert not y.requires_grad


@pytest.mark.parametrize("function", [nn.Threshold(0.1, 0.5), nn.Softplus(1.5, 4)])
def test_an_output_of_two_derivatives_at_a_single_point_is_a_fold(function):
    """A value in the middle of a curve, and a step down."""
    assert widest_fold(function) is not None


STEEP = [lambda x: torch.tanh(30 * x), nn.Softplus(beta=100), lambda x: x + (3 * x).floor(), nn.Threshold(0.1, -1)]


@pytest.mark.parametrize("function", STEEP)
def test_a_steep_curve_and_many_kinks_are_no_fold(function):
    assert widest_fold(function) is None


def test_what_has_no_curve_is_refused():
    with pytest.raises(ValueError, match="must give a finite number and derivative for each number from -6.0 to 6.0"):
        widest_fold(torch.log)
    with pytest.raises(ValueError, match=r"must map a float64 tensor to one that depends on it: got .*try nn.GELU\(\)"):
        widest_fold(nn.GELU)


def test_no_minus_stands_before_a_zero():
    assert [plain(number, 2) for number in (-0.001, 0.0, -0.01, 1.125)] == ["0.00", "0.00", "-0.01", "1.12"]

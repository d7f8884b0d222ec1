"""What an activation decides: which outputs tell their derivative, what autograd keeps, how a small model learns."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from utils import SavedTensorContext
from utils.experiments.activations import (
    BATCH,
    LENGTH,
    N_POINTS,
    SYMBOLS,
    WIDTH,
    _sequences,
    backward_reads,
    curve,
    plain,
    survey,
    train_small,
    widest_fold,
)
from utils.formulas.mlp import ACTIVATIONS
from utils.models import activations
from utils.models.activations import SquaredReLU

FOLD = {"GELU", "Hardswish", "Mish", "SiLU"}


@pytest.fixture(scope="module")
def found():
    return survey()


@pytest.mark.nightly
def test_every_activation_is_there_but_those_that_are_left_out(found):
    left_out = {"Softmax", "Softmax2d", "Softmin", "LogSoftmax", "RReLU", "Threshold", "Identity"}
    assert {row.name for row in found.rows} == {name for name in ACTIVATIONS if not name.endswith("_")} - left_out


@pytest.mark.long
def test_four_fold_and_all_others_tell(found):
    assert {row.name for row in found.rows if row.fold is not None} == FOLD


@pytest.mark.long
def test_a_fold_is_one_output_with_two_slopes(found):
    for name in FOLD:
        fold, function = found[name].fold, getattr(nn, name)().double()
        x = torch.tensor(fold.x, dtype=torch.float64, requires_grad=True)
        y = function(x)
        assert y.tolist() == pytest.approx([fold.y, fold.y], abs=1e-4)  # neighbours among 240,001 points
        (slopes,) = torch.autograd.grad(y.sum(), x)
        assert slopes.tolist() == pytest.approx(fold.derivatives)
        assert abs(fold.derivatives[0] - fold.derivatives[1]) > 0.4


@pytest.mark.long
def test_kept_bytes_are_those_of_a_run(found):
    kept = {row.name: (row.kept_bsd, row.possible_bsd) for row in found.rows}
    assert kept["ReLU"] == kept["Tanh"] == kept["Sigmoid"] == (10, 10)
    assert kept["LeakyReLU"] == kept["ELU"] == kept["Softplus"] == kept["Tanhshrink"] == (18, 10)
    assert kept["Softsign"] == (26, 10)
    assert {kept[name] for name in FOLD} == {(18, 18)}


def test_the_order_is_that_of_what_could_be_saved(found):
    saved = [row.kept_bsd - row.possible_bsd for row in found.rows]
    assert saved == sorted(saved, reverse=True)
    assert "no: -0.024 at x = -2.31 and -0.05, with slopes -0.05 and 0.46" in repr(found)
    assert "Softsign" in found._repr_html_()


@pytest.mark.long
@pytest.mark.parametrize("function", [nn.LeakyReLU(-0.1), nn.ELU(-0.5), torch.sin, torch.square, torch.abs])
def test_what_turns_round_folds(function):
    assert widest_fold(function) is not None


@pytest.mark.long
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


# ---- what the table of derivatives says


OPERATIONS = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "exp": torch.exp,
    "asinh": torch.asinh,
    "gelu": F.gelu,
    "silu": F.silu,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "hardtanh": F.hardtanh,
    "softplus": F.softplus,
    "softshrink": F.softshrink,
    "leaky_relu": F.leaky_relu,
    "leaky_relu_": lambda x: F.leaky_relu_(x),
    "elu": F.elu,
    "elu_": lambda x: F.elu_(x),
    "celu": F.celu,
    "celu_": lambda x: F.celu_(x),
    "_softmax": lambda x: F.softmax(x, -1),
    "_log_softmax": lambda x: F.log_softmax(x, -1),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_table_says_what_autograd_keeps(operation):
    x = torch.ones(3, requires_grad=True) * 1  # multiplied: a leaf may not be changed in place
    with SavedTensorContext() as saved:
        y = OPERATIONS[operation](x)
    rows = [row for row in saved.rows(y) if not row.node.startswith("MulBackward")]
    assert backward_reads(operation) == tuple(row.slot for row in rows)


def test_an_unknown_operation():
    message = "operation must have a derivative in derivatives.yaml: got 'swish'; try 'relu' or 'leaky_relu_'."
    with pytest.raises(ValueError, match=re.escape(message)):
        backward_reads("swish")


@pytest.mark.parametrize("operation", ["_prelu_kernel", "native_dropout", "native_layer_norm", "cat", "mulXTensor"])
def test_no_operation_is_given_the_line_of_the_next(operation):
    """The first four have entries without a line for `self` alone; a dot in a name is a dot."""
    with pytest.raises(ValueError, match=f"got '{operation}'"):
        backward_reads(operation)


# ---- a small model in training


def test_each_symbol_is_the_sum_of_the_two_before_it():
    symbols = _sequences()
    assert symbols.shape == (BATCH, LENGTH + 1)
    assert torch.equal(symbols[:, 2:], (symbols[:, 1:-1] + symbols[:, :-2]) % SYMBOLS)


@pytest.mark.long
def test_it_learns_and_starts_alike():
    runs = [train_small(name, steps=100) for name in ("relu", "gelu")]
    assert all(run.losses[0] > 1.9 and run.last_loss < 0.5 for run in runs)
    assert len(runs[0].losses) == 100


def test_ours_trains_to_the_same_losses_with_a_tensor_less():
    theirs, ours = (train_small(leaky, steps=20) for leaky in (nn.LeakyReLU(), activations.LeakyReLU()))
    assert theirs.losses == ours.losses
    assert theirs.kept_bytes - ours.kept_bytes == 4 * BATCH * LENGTH * WIDTH * 4
    assert train_small("gelu", steps=1).kept_bytes == theirs.kept_bytes
    assert train_small("relu", steps=1).kept_bytes == ours.kept_bytes


def test_threads_are_as_before():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        train_small("relu", steps=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_what_the_whole_model_keeps_and_what_is_no_run():
    assert train_small("gelu", steps=1).kept_bytes == 894_080
    with pytest.raises(ValueError, match="steps must be a positive integer: got steps=0"):
        train_small("gelu", steps=0)

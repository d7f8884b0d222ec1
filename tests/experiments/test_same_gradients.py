"""Gradients on real tensors: what is compared, and that the comparison sees a bit."""

import pytest
import torch
from torch import nn

from utils.experiments.same_gradients import eager, equal, gradients


def linear():
    torch.manual_seed(0)
    return nn.Linear(16, 3, dtype=torch.float64)


def test_output_input_and_parameters():
    layer = linear()
    y, of_x, of_weight, of_bias = gradients(layer, eager)
    assert (y.shape, of_x.shape) == ((2, 8, 3), (2, 8, 16))
    torch.testing.assert_close(of_bias, 2 * y.sum((0, 1)))  # of a sum of squares
    torch.testing.assert_close(of_x, 2 * y @ layer.weight.detach())
    assert of_weight is layer.weight.grad


def test_they_do_not_add_up_and_arguments_are_passed_on():
    layer = linear()
    assert equal(gradients(layer, eager), gradients(layer, lambda module, x, by: module(x) * by, by=1.0))
    assert not equal(gradients(layer, eager), gradients(layer, lambda module, x, by: module(x) * by, 2.0))


def test_the_same_random_numbers_each_time():
    drop = nn.Dropout(0.5)
    assert equal(gradients(drop, eager), gradients(drop, eager))
    assert not equal(gradients(drop, eager), gradients(drop, eager, seed=2))
    assert len(gradients(torch.sin, eager)) == 2


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([torch.ones(2), None], [torch.ones(2), None], True),
        ([torch.ones(2)], [torch.ones(2) + 1e-7], False),
        ([torch.ones(2)], [None], False),
        ([None], [torch.ones(2)], False),
    ],
)
def test_equal(one, other, same):
    assert equal(one, other) == same


def test_equal_needs_as_many():
    with pytest.raises(ValueError, match="shorter"):
        equal([torch.ones(2)], [])

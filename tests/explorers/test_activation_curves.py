"""The explorer's curves say what the survey says."""

import math

import pytest
from torch import nn

from utils.experiments.activations import widest_fold
from utils.explorers.activation_curves import activation_curves


def test_a_function_that_tells():
    over_input, over_output = activation_curves("Tanh")
    assert over_input.mark is over_output.mark is None
    assert over_output.caption == "Each output has one derivative."
    assert (over_output.x_label, over_output.y_label) == ("output y", "derivative dy/dx")
    for ys, slopes in over_output.points:
        assert slopes == pytest.approx([1 - y * y for y in ys])


def test_a_function_that_folds():
    over_input, over_output = activation_curves("GELU")
    fold = widest_fold(nn.GELU())
    assert over_input.mark == tuple((x, fold.y) for x in fold.x)
    assert over_output.mark == tuple((fold.y, slope) for slope in fold.derivatives)
    assert over_output.caption == "The output -0.024 has the derivatives -0.05 and 0.46."
    assert over_input.caption == "At x = -2.31 and x = -0.05 the output is -0.024."


@pytest.mark.parametrize("name", ["GELU", "SiLU", "Mish", "Hardswish"])
def test_every_mark_lies_on_its_curve(name):
    """To within a hundredth, which is what `pieces` leaves out and more."""
    for drawn in activation_curves(name):
        points = [point for xs, ys in drawn.points for point in zip(xs, ys, strict=True)]
        lines = list(zip(points, points[1:], strict=False))
        for mark in drawn.mark:
            assert min(distance(mark, *line) for line in lines) < 0.01


def distance(point, start, end) -> float:
    (x, y), (x1, y1), (x2, y2) = point, start, end
    squared = (x2 - x1) ** 2 + (y2 - y1) ** 2
    along = min(1, max(0, ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / squared)) if squared else 0
    return math.hypot(x - x1 - along * (x2 - x1), y - y1 - along * (y2 - y1))

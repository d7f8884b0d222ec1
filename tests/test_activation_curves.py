"""The explorer's curves say what the survey says."""

import pytest
from torch import nn

from utils.activation_curves import activation_curves
from utils.activation_survey import widest_fold


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


def test_a_fold_outside_of_what_is_shown_is_marked_in_one_alone():
    over_input, over_output = activation_curves("SiLU")
    assert over_input.mark is None
    assert over_output.mark is not None

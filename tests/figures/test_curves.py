"""The figure of derivatives over outputs says what the survey says."""

import pytest
import torch
from torch import nn

from utils.experiments.activations import widest_fold
from utils.figures.curves import over_output


@pytest.fixture(scope="module")
def axes():
    return over_output("A curve, and a fold", {"tanh": torch.tanh, "GELU": nn.GELU()}, (-1.0, 2.0)).axes[0]


def test_a_line_for_each_and_one_that_joins_a_fold(axes):
    tanh, gelu, fold = axes.lines
    y, slope = tanh.get_data()
    assert slope == pytest.approx(1 - y**2, abs=1e-6)
    assert max(gelu.get_xdata()) <= 2.0
    assert tanh.get_color() != gelu.get_color()
    assert tanh.get_linestyle() != gelu.get_linestyle()
    found = widest_fold(nn.GELU())
    assert list(fold.get_xdata()) == [found.y] * 2
    assert list(fold.get_ydata()) == list(found.derivatives)


def test_words(axes):
    assert axes.get_title(loc="left") == "A curve, and a fold"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("output y", "derivative dy/dx")
    assert {text.get_text() for text in axes.texts} == {f"x = {x:.2f}" for x in widest_fold(nn.GELU()).x}
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["tanh", "GELU"]


def test_more_functions_than_line_styles():
    with pytest.raises(ValueError, match="functions must be at most 4, one for each line style: got 5"):
        over_output("five", dict.fromkeys("abcde", torch.tanh), (-1, 1))

"""Figures say in bars, labels and hatches what the figures in bytes say."""

from utils.figures import stacked_bars


def test_stacked_bars():
    figure = stacked_bars("ReLU keeps less", {"GELU": {"input": 2**20, "mask": 2**19}, "ReLU": {"input": 2**20}})
    axes = figure.axes[0]
    assert [patch.get_width() for patch in axes.patches] == [1.0, 0.5, 1.0]
    assert [patch.get_x() for patch in axes.patches] == [0.0, 1.0, 0.0]
    assert [text.get_text() for text in axes.texts] == [" 1.5 MiB", " 1 MiB"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["input", "mask"]
    assert axes.get_title(loc="left") == "ReLU keeps less"
    assert axes.get_xlabel() == "MiB kept for backward"
    gelu_input, mask, relu_input = axes.patches
    assert gelu_input.get_facecolor() == relu_input.get_facecolor() != mask.get_facecolor()
    assert gelu_input.get_hatch() == relu_input.get_hatch() != mask.get_hatch()

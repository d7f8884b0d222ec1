"""The figures of curves show what the survey says, and the bytes that they are given."""

import pytest
import torch
from torch import nn

from every_byte.ledger.trace import Trace
from every_byte.units import GiB, MiB
from utils.experiments.activations import widest_fold
from utils.experiments.checkpointed_runs import in_regions
from utils.experiments.recomputation import sines
from utils.figures.curves import curves, over_length, over_output, over_step


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


# ---- memory over events and over a sequence


def test_curves():
    axes = curves("Two curves", {"all kept": sines(8), "2 segments": sines(8, 2)}).axes[0]
    first, triangle, dot, second, *_ = axes.lines
    assert max(first.get_ydata()) == pytest.approx(10, abs=0.001)
    assert max(second.get_ydata()) == pytest.approx(7, abs=0.001)
    assert first.get_ydata()[0] == 0
    assert len(second.get_ydata()) > len(first.get_ydata())
    assert triangle.get_ydata()[0] == pytest.approx(8, abs=0.001), "what forward leaves"
    assert dot.get_ydata()[0] == max(first.get_ydata())
    assert first.get_linestyle() != second.get_linestyle()
    assert {text.get_text() for text in axes.texts} == {"10", "7"}
    assert axes.get_title(loc="left") == "Two curves"
    assert axes.get_ylabel() == "units requested, of 1 MiB each"
    halved = curves("The same", {"all kept": sines(8)}, unit_bytes=2 * MiB).axes[0]
    assert max(halved.lines[0].get_ydata()) == pytest.approx(5, abs=0.001)
    assert halved.get_ylabel() == "units requested, of 2 MiB each"


def test_curves_need_the_end_of_forward():
    with pytest.raises(ValueError, match='traces must have the mark "forward"'):
        curves("None", {"empty": Trace("simulated", "a100-80gb")})
    with pytest.raises(ValueError, match="traces must be at most 4, one for each line style: got 5"):
        curves("Five", dict.fromkeys("abcde", sines(1)))


def test_over_length():
    forms = {"square": lambda s: s * s * MiB, "line": lambda s: s * MiB}
    axes = over_length("A square", forms, {"square": {2: 4 * MiB, 64: 4096 * MiB}, "line": {64: 64 * MiB}}).axes[0]
    square, found, line, _ = axes.lines
    assert list(square.get_xdata()) == list(range(1, 65))
    assert list(square.get_ydata()) == [s * s for s in range(1, 65)]
    assert (list(found.get_xdata()), list(found.get_ydata())) == ([2, 64], [4, 4096])
    assert list(line.get_ydata()) == list(range(1, 65))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("sequence length s", "MiB kept by a layer")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["square", "line"]


# ---- a step, a panel for each run


@pytest.fixture(scope="module")
def runs():
    small = {"b": 2, "s": 64, "n_layers": 2}
    return {name: in_regions(name, **small) for name in ("none", "every block", "attention only")}


def test_a_line_is_its_run_s_step(runs):
    for run in runs.values():
        totals, end = run.over_step()
        assert max(totals) == run.peak_bytes
        assert totals[end] == run.held_bytes
        assert totals[-1] == run.trace.requested_bytes(run.trace.position("step 2 zero_grad"))


def test_panels(runs):
    figure = over_step("Three ways", runs)
    assert figure.get_suptitle() == "Three ways"
    lowest = min(run.peak_bytes for run in runs.values()) / GiB
    assert len(figure.axes) == 3
    for panel, (name, run) in zip(figure.axes, runs.items(), strict=True):
        line, triangle, dot, dotted = panel.lines
        assert max(line.get_ydata()) == run.peak_bytes / GiB == dot.get_ydata()[0]
        assert triangle.get_ydata()[0] == run.held_bytes / GiB
        assert dotted.get_ydata()[0] == lowest
        assert [text.get_text() for text in panel.texts] == [f"{run.peak_bytes / GiB:.1f}", name]

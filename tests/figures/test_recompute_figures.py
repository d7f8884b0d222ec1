"""The figures of checkpointing show the bytes they are given."""

import pytest

from every_byte.ledger.trace import Trace
from every_byte.units import MiB
from utils.experiments.recomputation import sines
from utils.figures.recompute_figures import curves, over_length


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
    with pytest.raises(ValueError, match="a figure has 4 line styles: got 5 lines"):
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

"""The panels of a step show the bytes of its run."""

import pytest

from every_byte.units import GiB
from utils.experiments.checkpointed_runs import in_regions
from utils.figures.step_curves import over_step


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
    assert len(figure.axes) == 4
    for panel, (name, run) in zip(figure.axes, runs.items(), strict=False):
        line, triangle, dot, dotted = panel.lines
        assert max(line.get_ydata()) == run.peak_bytes / GiB == dot.get_ydata()[0]
        assert triangle.get_ydata()[0] == run.held_bytes / GiB
        assert dotted.get_ydata()[0] == lowest
        assert [text.get_text() for text in panel.texts] == [f"{run.peak_bytes / GiB:.1f}", name]

"""Figures say in bars, labels and hatches what the figures in bytes say."""

import pytest
import torch

from every_byte.figures.bars import predicted_beside, stacked_bars, timeline
from every_byte.ledger.events import Event
from every_byte.ledger.readings import categories
from every_byte.units import GiB, MiB, exact
from utils import Ledger, LinearStack, SimulatedGPU, Trace
from utils.experiments.training import train_in_phases


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


@pytest.fixture(scope="module")
def trace():
    with SimulatedGPU("a100-80gb") as gpu:
        train_in_phases(gpu, lambda: LinearStack(device=gpu.device), lambda: torch.empty(64, 100, device=gpu.device))
        return gpu.trace


def highest(axes) -> float:
    return max(y for area in axes.collections for path in area.get_paths() for y in path.vertices[:, 1])


def words(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_a_timeline_rises_to_the_peak_and_names_it(trace):
    axes = timeline("Adam", trace, categories(trace)).axes[0]
    assert "peak 57,715,712 bytes (55 MiB)" in words(axes)
    assert highest(axes) == pytest.approx(57_715_712 / MiB)
    assert axes.get_ylabel() == "MiB allocated"
    changes = [event for event in trace if event.action in ("alloc", "free", "mark")]
    marks = [n - i for i, n in enumerate(n for n, event in enumerate(changes) if event.action == "mark")]
    *lines, peak = axes.lines
    assert [line.get_xdata()[0] for line in lines] == marks, "a line at each mark, counted in allocations and frees"
    assert peak.get_xdata()[0] == levels_of(changes).index(57_715_712)
    assert {phase: middle(axes, phase) for phase in ("backward", "step")} == {
        "backward": pytest.approx((marks[9] + marks[10]) / 2),
        "step": pytest.approx((marks[10] + marks[11]) / 2),
    }
    assert {"iteration 1", "iteration 2", "iteration 3", "backward", "step"} < set(words(axes))


def levels_of(changes) -> list[int]:
    """The allocated bytes before the first change and after each, added up by hand."""
    levels = [0]
    for event in changes:
        if event.action != "mark":
            levels.append(levels[-1] + (event.block_bytes if event.action == "alloc" else -event.block_bytes))
    return levels


def middle(axes, phase) -> float:
    """Where the word for a phase stands, the last time that it does."""
    return [text.get_position()[0] for text in axes.texts if text.get_text() == phase][-1]


def test_a_step_is_drawn_from_its_event_on():
    """The level after an event lasts until the next one: a staircase that rises at the event."""
    trace = Trace("simulated", "none")
    trace.events += [Event("alloc", MiB, 0, block_bytes=MiB), Event("free", MiB, 0, block_bytes=MiB)]
    area = timeline("Up and down", trace, {0: "input"}).axes[0].collections[0]
    corners = {tuple(corner) for path in area.get_paths() for corner in path.vertices.tolist()}
    assert {(1.0, 0.0), (1.0, 1.0), (2.0, 1.0)} <= corners
    assert (0.5, 1.0) not in corners
    assert (0.0, 1.0) not in corners


def test_a_timeline_of_one_iteration_stacks_categories_in_the_book_s_order(trace):
    part = {"after": "iteration 1 zero_grad", "until": "iteration 2 backward"}
    figure = timeline("No step", trace, categories(trace), **part)
    axes = figure.axes[0]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "parameters",
        "optimizer state",
        "cuBLAS workspace",
        "input",
        "activations",
        "loss",
        "gradients",
        "temporaries",
    ]
    assert "peak 49,642,496 bytes (47.3 MiB)" in words(axes)
    assert {"iteration 2", "forward", "backward"} <= set(words(axes))
    whole = timeline("Adam", trace, categories(trace)).axes[0].lines
    first, *inner = (line.get_xdata()[0] for line in whole[4:7])
    assert [line.get_xdata()[0] for line in axes.lines[:-1]] == [position - first for position in inner]
    assert len({area.get_hatch() for area in axes.collections}) == 8
    with pytest.raises(ValueError, match="must be one of this trace's: got 'iteration 9', has model to device, "):
        timeline("No such", trace, {}, until="iteration 9")


@pytest.fixture(scope="module")
def script():
    """A script that marks nothing: two steps of AdamW."""
    with SimulatedGPU("a100-80gb") as gpu:
        model = torch.nn.Linear(1000, 1000, device=gpu.device)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            model(torch.empty(3000, 1000, device=gpu.device)).relu().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        return gpu.trace


def test_a_timeline_by_the_ledger_shades_phases_and_names_the_peak(script):
    figure = timeline("Two steps", script)
    axes = figure.axes[0]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "parameters",
        "optimizer state",
        "cuBLAS workspace",
        "inputs",
        "activations",
        "outputs",
        "gradients",
        "temporaries",
        "slack",
    ]
    peak = Ledger.at_peak(script)
    assert f"peak {exact(peak.allocated_bytes)}" in words(axes)
    assert highest(axes) == pytest.approx(peak.allocated_bytes / MiB)
    phases = [e.phase for e in script if e.action in ("alloc", "free")]
    assert [word for word in words(axes) if not word.startswith("peak")] == ["backward", "step", "backward", "step"]
    spans = [(patch.get_x(), patch.get_x() + patch.get_width(), patch.get_alpha()) for patch in axes.patches]
    for start, end, _ in spans:
        assert len({phases[i - 1] for i in range(round(start), round(end))}) == 1
    shades = {phases[round(start) - 1]: alpha for start, _, alpha in spans}
    assert len(set(shades.values())) == 3
    assert len(spans) == 6


def test_a_timeline_by_the_ledger_between_marks(trace):
    part = {"after": "iteration 1 zero_grad", "until": "iteration 2 backward"}
    axes = timeline("No step", trace, **part).axes[0]
    assert "peak 49,642,496 bytes (47.3 MiB)" in words(axes)
    old = timeline("No step", trace, categories(trace), **part).axes[0]
    assert highest(axes) == highest(old)
    assert axes.get_xlim() == old.get_xlim()


def test_a_timeline_around_its_peak_with_a_level(trace):
    whole = {"after": "iteration 1 zero_grad", "until": "iteration 2 zero_grad"}
    axes = timeline("Near the peak", trace, **whole, level="iteration 1 zero_grad", around_peak=5).axes[0]
    peak = Ledger.at_peak(trace, **whole).allocated_bytes
    level = Ledger.at(trace, "iteration 1 zero_grad").allocated_bytes
    assert axes.get_xlim() == (0, 10)
    line, dot = axes.lines
    assert dot.get_xdata()[0] == 5
    assert list(line.get_ydata()) == pytest.approx([level / MiB] * 2)
    assert {f"peak {exact(peak)}", f"after iteration 1 zero_grad: {exact(level)}"} <= set(words(axes))
    with pytest.raises(ValueError, match="mark must be one of this trace's: got 'none'"):
        timeline("Near the peak", trace, **whole, level="none")
    with pytest.raises(ValueError, match="around_peak must be 0 or more: got -5; 0 draws all between the marks"):
        timeline("Nowhere", trace, **whole, around_peak=-5)


def test_bars_of_a_ledger(script):
    peak = Ledger.at_peak(script)
    figure = stacked_bars("At the peak", {"peak": peak.parts}, unit="MiB allocated")
    axes = figure.axes[0]
    assert sum(patch.get_width() for patch in axes.patches) == pytest.approx(peak.allocated_bytes / MiB)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(peak.parts)
    assert list(peak.parts)[-1] == "slack"
    assert axes.get_xlabel() == "MiB allocated"


def test_a_timeline_of_a_recording_shows_requested_bytes():
    recording = {"case": "x", "card": "a100", "device_name": "x", "torch": "2.13", "events": []}
    recording["events"] = [["alloc", 0, 3 * MiB, "empty", None, "end"], ["free", 0], ["mark", "end"]]
    axes = timeline("Recorded", Trace.from_recording(recording), {}).axes[0]
    assert axes.get_ylabel() == "MiB requested"
    assert highest(axes) == 3.0


def test_predictions_and_by_how_much_they_are_off():
    figure = predicted_beside("Off", {"one": (9 * GiB, 10 * GiB, 10 * GiB), "two": (21 * GiB, 20 * GiB, 20 * GiB)})
    assert [text.get_text().strip() for text in figure.axes[0].texts] == [
        "9.000, off by -1,073,741,824 bytes (-10.0%)",
        "10.000, off by 0 bytes",
        "10.000",
        "21.000, off by 1,073,741,824 bytes (5.0%)",
        "20.000, off by 0 bytes",
        "20.000",
    ]
    assert sorted(patch.get_width() for patch in figure.axes[0].patches) == [9, 10, 10, 20, 20, 21]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["one", "two"]


def test_a_line_shows_what_is_held_between_steps():
    peaks = {"one": (9 * GiB, 10 * GiB, 10 * GiB), "two": (21 * GiB, 20 * GiB, 20 * GiB)}
    figure = predicted_beside("Off", peaks, {"one": (GiB - 312, GiB), "two": (2 * GiB, 2 * GiB)})
    axes = figure.axes[0]
    assert [line.get_xdata()[0] for line in axes.lines] == [1, 2]
    assert [words for text in axes.texts if (words := text.get_text().strip()).startswith("between")] == [
        "between steps 1.000, estimate off by -312 bytes",
        "between steps 2.000, estimate off by 0 bytes",
    ]
    assert axes.get_xlabel() == "GiB requested, at the peak and between steps"
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names.count("between steps, simulated") == 1

"""Figures say in bars, labels and hatches what the figures in bytes say."""

import pytest
import torch

from utils import LinearStack, SavedTensorContext, SimulatedGPU, Trace
from utils.figures import stacked_bars, timeline
from utils.graph_figure import graph
from utils.training import categories, train_in_phases
from utils.units import MiB


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
    assert len(axes.lines) == 13 + 1, "a line for each mark, and the point of the peak"
    assert {"iteration 1", "iteration 2", "iteration 3", "backward", "step"} < set(words(axes))


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
    assert len({area.get_hatch() for area in axes.collections}) == 8
    with pytest.raises(ValueError, match="must be one of this trace's: got 'iteration 9', has model to device, "):
        timeline("No such", trace, {}, until="iteration 9")


def test_a_timeline_of_a_recording_shows_requested_bytes():
    recording = {"case": "x", "card": "a100", "device_name": "x", "torch": "2.13", "events": []}
    recording["events"] = [["alloc", 0, 3 * MiB, "empty", None, "end"], ["free", 0], ["mark", "end"]]
    axes = timeline("Recorded", Trace.from_recording(recording), {}).axes[0]
    assert axes.get_ylabel() == "MiB requested"
    assert highest(axes) == 3.0


def test_a_graph_shows_each_storage_once_and_every_reader():
    with SimulatedGPU("a100-80gb") as gpu:
        stack = LinearStack(3, 4, 2, 1, relu=True, device=gpu.device)
        with SavedTensorContext(stack.parameters()) as saved:
            y = stack(torch.empty(5, 3, device=gpu.device)).sum()
        axes = graph("Kept", y, saved.rows(y)).axes[0]
    assert [word for word in words(axes) if "\n" in word and "Backward" not in word] == [
        "first\nAddmm",
        "hidden.0\nMm",
        "activation\nRelu",
        "last\nAddmm",
        "mat1 (5, 3)\n60 B",
        "self (5, 4)\n80 B",
        "result = mat1 (5, 4)\n80 B",
    ]
    forward_and_backward, readers = 2 * 4, 4
    assert sum(word == "" for word in words(axes)) == forward_and_backward + readers, "an arrow is an empty annotation"


def test_boxes_of_a_graph_do_not_touch():
    with SimulatedGPU("a100-80gb") as gpu:
        x, w = (torch.empty(4, 4, device=gpu.device, requires_grad=True) for _ in range(2))
        with SavedTensorContext() as saved:
            h = x @ w
            y = (x + torch.sigmoid(h) * h).exp()
        axes = graph("A residual", y, saved.rows(y)).axes[0]
    boxes = [patch.get_bbox() for patch in axes.patches]
    assert len(boxes) == 2 * 5 + 5
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])

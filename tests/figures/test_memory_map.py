"""The memory map says in rectangles and labels what the snapshot says in bytes."""

import pytest
import torch

from every_byte.figures.memory_map import block_address, memory_map
from every_byte.units import MiB
from utils import SimulatedGPU
from utils.experiments.first_programs import SMALL_GPU, fragmented, tensor_of


def rectangles(figure):
    """(kind, left, width, row) of each, in MiB."""
    return [
        (patch.get_label(), patch.get_x(), patch.get_width(), round(patch.get_y() + patch.get_height() / 2))
        for patch in figure.axes[0].patches
    ]


def words(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_blocks_slack_and_holes(gpu):
    a, b, c = (tensor_of(gpu, n_mib * MiB) for n_mib in (13, 3, 9))
    del b
    figure = memory_map("A hole", gpu.memory_snapshot(), {"a": a})
    assert rectangles(figure) == [
        ("requested", 0, 13, 0),
        ("slack", 13, 1, 0),
        ("free", 0, 3, 1),
        ("requested", 3, 9, 1),
        ("free", 12, 8, 1),
    ]
    assert words(figure) == ["a", "3 MiB", "9 MiB", "8 MiB"], "a name where there is one, else a size"
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert rows == ["segment 1, 14 MiB", "segment 2, 20 MiB"]
    assert figure.axes[0].get_title(loc="left") == "A hole"
    assert figure.axes[0].get_xlabel() == "MiB from the start of the segment"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["requested", "slack", "free"]
    del c


def test_the_three_kinds_differ_without_colour(gpu):
    _kept = [tensor_of(gpu, 13 * MiB), tensor_of(gpu, 3 * MiB)]
    figure = memory_map("", gpu.memory_snapshot())
    looks = {patch.get_label(): (patch.get_hatch(), patch.get_linestyle()) for patch in figure.axes[0].patches}
    assert len(set(looks.values())) == 3, looks
    assert figure.axes[0].patches[-1].get_facecolor()[3] == 0, "a free block is empty"


def test_a_label_that_has_no_room_is_left_out(gpu):
    small, large = tensor_of(gpu, 512), tensor_of(gpu, 40 * MiB)
    assert words(memory_map("", gpu.memory_snapshot(), {"small": small, "large": large})) == ["large"]


def test_the_rectangles_add_up():
    with SimulatedGPU(SMALL_GPU) as gpu:
        _kept = fragmented(gpu)
        drawn = rectangles(memory_map("", gpu.memory_snapshot()))
    assert sum(width for kind, _, width, _ in drawn if kind == "requested") == 30
    assert sum(width for kind, _, width, _ in drawn if kind == "free") == 30


def test_without_segments(gpu):
    with pytest.raises(ValueError, match="snapshot must hold a segment: got an empty one; allocate something first"):
        memory_map("", gpu.memory_snapshot())


def test_a_tensor_without_bytes_lies_nowhere(gpu):
    tensors = {"full": torch.empty(2**20, device=gpu.device), "empty": torch.empty(0, device=gpu.device)}
    axes = memory_map("", gpu.memory_snapshot(), tensors).axes[0]
    assert "full" in [text.get_text() for text in axes.texts]


def test_where_a_tensor_lies(gpu):
    x = torch.empty(1000, device=gpu.device)
    y = torch.empty(1000, device=gpu.device)
    assert block_address(y) - block_address(x) == 4096
    assert block_address(x[500:]) == block_address(x) == gpu.memory_snapshot()[0]["blocks"][0]["address"]
    for elsewhere in (torch.ones(3), torch.empty(0, device=gpu.device)):
        with pytest.raises(ValueError, match=r"tensor must lie in a GPU's memory: got one of shape \([30],\)"):
            block_address(elsewhere)


@pytest.mark.gpu
def test_where_a_tensor_lies_on_a_live_gpu():
    x = torch.empty(1000, device="cuda")
    addresses = [block["address"] for segment in torch.cuda.memory_snapshot() for block in segment["blocks"]]
    assert block_address(x[500:]) in addresses

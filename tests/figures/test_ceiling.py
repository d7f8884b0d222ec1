"""The dashed line is at what the smaller GPU has for PyTorch, whether or not the run reaches above it."""

import pytest
import torch

from every_byte.gpu.memory.specs import find_spec
from every_byte.units import GiB, MiB
from utils import SimulatedGPU
from utils.figures.ceiling import under_ceiling


@pytest.mark.parametrize("n_bytes", [15 * GiB, 13 * GiB])
def test_the_line_is_at_what_the_other_gpu_has(n_bytes):
    with SimulatedGPU("a100-80gb") as gpu:
        _tensor = torch.empty(n_bytes, dtype=torch.uint8, device=gpu.device)
    spec = find_spec("t4-16gb")
    axes = under_ceiling("Too high", gpu.trace, {0: "everything"}, spec).axes[0]
    (line,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert set(line.get_ydata()) == {spec.allocator_bytes / MiB}
    assert "t4-16gb has 14 GiB for PyTorch" in [text.get_text() for text in axes.texts]
    assert axes.get_title(loc="left") == "Too high"

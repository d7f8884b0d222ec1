"""The warning where the CPU's autocast runs over a simulated GPU, as a library enters that finds no GPU."""

import warnings

import pytest
import torch

from utils import SimulatedGPU


@pytest.fixture
def gpu():
    with SimulatedGPU("a100-80gb") as gpu:
        yield gpu


def test_a_product_in_float32_under_the_cpus_autocast_is_told_once(gpu):
    x = torch.zeros(4, 4, device=gpu.device)
    with pytest.warns(
        UserWarning, match=r'device type "cpu" casts nothing on a GPU: under it aten::mm .*gpu\.autocast'
    ):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert (x @ x).dtype is torch.float32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x @ x


@pytest.mark.parametrize("way", ["on the CPU", "both", "disabled", "no product"])
def test_nothing_is_said_where_nothing_is_lost(gpu, way):
    x = torch.zeros(4, 4, device="cpu" if way == "on the CPU" else gpu.device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=way != "disabled"):
            if way == "both":
                with gpu.autocast(torch.bfloat16):
                    x @ x
            elif way == "no product":
                x + x
            else:
                x @ x

"""The levels of the allocator, as drawn, are what a GPU's counters say."""

import pytest
import torch
from diagrams import words

from every_byte.units import MiB, short
from utils import SimulatedGPU
from utils.figures.allocator_diagram import allocator_levels


@pytest.mark.parametrize(("n_bytes", "block", "segment"), [(4, 512, 2 * MiB), (13 * MiB, 14 * MiB, 14 * MiB)])
def test_each_level_has_its_bytes_and_its_counter(n_bytes, block, segment):
    with SimulatedGPU("a100-80gb") as gpu:
        tensor = torch.empty(n_bytes, dtype=torch.uint8, device=gpu.device)
        diagram = allocator_levels(gpu, tensor[:1])
    drawn = words(diagram)
    after = {level: drawn[drawn.index(level) + 1] for level in ("segment", "block", "storage")}
    assert after == {"segment": short(segment), "block": short(block), "storage": short(n_bytes)}
    for level, counter in (("segment", "memory_reserved()"), ("block", "memory_allocated()")):
        assert drawn.index(level) < drawn.index(counter) < drawn.index("tensor")
        assert f"{level} {after[level]}, {counter}" in diagram.alt


def test_it_reads_from_the_driver_down():
    with SimulatedGPU("a100-80gb") as gpu:
        drawn = words(allocator_levels(gpu, torch.empty(1, device=gpu.device)))
    chain = [
        "driver",
        "segment",
        "sells",
        "block",
        "is cut into",
        "storage",
        "is lent to",
        "tensor",
        "view",
        "share it",
    ]
    assert [word for word in drawn if word in chain] == chain
    assert "outside PyTorch" in drawn

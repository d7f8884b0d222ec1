"""Large values that nobody knows, brought to the CPU: zeros that take no memory until they are written to."""

import os
import sys

import pytest
import torch

from every_byte.gpu.known.reading import brought
from utils import SimulatedGPU

GiB = 1 << 30


@pytest.fixture
def gpu():
    with SimulatedGPU("a100-80gb") as gpu:
        yield gpu


def resident_bytes():
    """Of this process."""
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * 4096


def test_they_read_zeros_and_can_be_written_to(gpu):
    values, is_known = brought(torch.empty(1 << 20, device=gpu.device).normal_(), torch.float32)
    assert not is_known
    assert not values.any()
    values[7] = 3
    assert values.sum() == 3


def test_one_is_not_the_others_memory(gpu):
    x = torch.empty(1 << 20, device=gpu.device).normal_()
    one, other = (brought(x, torch.float32).values for _ in range(2))
    one.fill_(1)
    assert not other.any()


@pytest.mark.parametrize("n", [100, 1000])  # small ones are copied, large ones mapped
def test_they_lie_as_a_copy_on_the_cpu_does(gpu, n):
    x = torch.empty(n, 2 * n, device=gpu.device).normal_()
    for view in (x, x.mT, x[:, ::2], x[:1].expand(n, 2 * n)):
        values = brought(view, torch.bfloat16).values
        assert values.dtype == torch.bfloat16
        assert values.shape == view.shape
        assert values.stride() == torch.empty_like(view, device="meta").stride()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there is no /proc")
def test_they_take_no_memory_until_a_page_is_written_to(gpu):
    x = torch.empty(4 * GiB, dtype=torch.uint8, device=gpu.device).random_()
    before = resident_bytes()
    values = brought(x, torch.uint8).values
    assert resident_bytes() - before < 1 << 24  # what Python makes meanwhile
    values[: 1 << 26] = 1
    assert resident_bytes() - before >= 1 << 26


def test_what_is_known_comes_as_it_is(gpu):
    values, is_known = brought(torch.arange(5, device=gpu.device), torch.int64)
    assert is_known
    assert values.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the system counts otherwise")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_process_that_was_brought_more_than_there_is_can_fork(gpu):
    x = torch.empty(2 * GiB, dtype=torch.uint8, device=gpu.device).random_()
    n_pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (2 * GiB) + 1
    held = [brought(x, torch.uint8).values for _ in range(n_pages)]
    if (child := os.fork()) == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(held) * 2 * GiB > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

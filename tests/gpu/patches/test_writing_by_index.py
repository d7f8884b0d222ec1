"""A number at one position on a simulated GPU, as PyTorch from 2.15 on writes it: without reading the position."""

import pytest
import torch

from every_byte.gpu.patches.writing_by_index import _with_positions_as_lists
from utils import SimulatedGPU

INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)


@pytest.fixture
def key_of():
    """What PyTorch's own subscription would get for a key and a value."""

    def key_of(key, value=1.0):
        seen = []
        with SimulatedGPU("a100-80gb") as gpu:
            key = key(gpu.device) if callable(key) else key
            _with_positions_as_lists(lambda _x, key, _value: seen.append(key))(None, key, value)
        return seen[0]

    return key_of


@pytest.mark.parametrize("dtype", INTEGERS)
def test_one_position_is_a_list_of_one(key_of, dtype):
    assert key_of(lambda device: torch.zeros((), dtype=dtype, device=device)).shape == (1,)
    first, second = key_of(lambda device: (slice(None), torch.zeros((), dtype=dtype, device=device)))
    assert (first, second.shape) == (slice(None), (1,))


@pytest.mark.parametrize("key", [
    torch.zeros((), dtype=torch.bool, device="meta"), torch.zeros((), dtype=torch.uint8, device="meta"),
    torch.zeros(3, dtype=torch.int64, device="meta"), torch.zeros((), dtype=torch.int64), 2, slice(1, 2), ..., None,
])  # fmt: skip
def test_masks_lists_and_what_the_host_knows_stay(key_of, key):
    assert key_of(key) is key


def test_a_tensor_that_is_written_is_written_as_before(key_of):
    position = torch.zeros((), dtype=torch.int64, device="meta")
    assert key_of(position, torch.zeros(3, device="meta")) is position

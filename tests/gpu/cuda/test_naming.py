"""Which device a program means."""

import pytest
import torch

from every_byte.gpu.cuda.naming import EMPTY, HERE, asking, by_default, is_outside, named
from every_byte.gpu.memory.as_cuda import AsCuda
from utils import SimulatedGPU


@pytest.mark.parametrize("device", ["cuda", "cuda:0", 0, torch.device("cuda"), torch.device("cuda", 0)])
def test_names_of_the_gpu(gpu, device):
    assert named(device) == HERE


@pytest.mark.parametrize(
    ("device", "kind"), [("meta", EMPTY), (torch.device("meta"), EMPTY), ("cpu", ""), (None, ""), ("xpu", "")]
)
def test_names_of_others(gpu, device, kind):
    assert named(device) == kind


def test_a_default_device_is_the_innermost(gpu):
    assert by_default() is None
    with torch.device("cuda"):
        with torch.device("meta"):
            assert by_default() == torch.device("meta")
        assert by_default() == torch.device("cuda")


def test_what_is_asked_ends_with_an_error(gpu):
    def asked() -> None:
        with asking(HERE):
            assert not is_outside()
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        asked()
    assert is_outside()


@pytest.mark.parametrize("device", ["cuda:1", 1, "cuda:7"])
def test_another_ranks_gpu_is_refused_by_name(device):
    with SimulatedGPU("a100-80gb", cuda=AsCuda(3, 8)):
        with pytest.raises(
            RuntimeError, match=r"the rank of cuda:3, and something was to lie on cuda:\d; call torch\.cuda"
        ):
            named(device)
        assert named("cuda:3") == HERE


def test_a_gpu_that_there_is_not(gpu):
    with pytest.raises(
        torch.AcceleratorError, match="invalid device ordinal\ncuda:1 was asked for, and there is one GPU, cuda:0"
    ):
        named("cuda:1")


def test_the_current_gpu_of_another_rank_is_refused_where_something_is_to_lie():
    """As of a program that forgets `torch.cuda.set_device`, on a rank that is not the first."""
    with SimulatedGPU("a100-80gb", cuda=AsCuda(3, 8)):
        with pytest.raises(RuntimeError, match=r"was to lie on cuda:0; call torch\.cuda\.set_device\(3\) first"):
            torch.zeros(1, device="cuda")
        torch.cuda.set_device(3)
        assert torch.zeros(1, device="cuda").device == torch.device("cuda", 3)

"""Operators of libraries run by their own kernel for CUDA, where that is written in Python."""

import pytest
import torch

from every_byte.gpu.operators.__main__ import described
from utils import SimulatedGPU

seen = []


@torch.library.custom_op("every_byte_own::doubled", mutates_args=(), device_types="cpu")
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@doubled.register_kernel("cuda")
def _(x):
    seen.append((x.device.type, x.device.index, torch.empty_like(x).device.type))
    scratch = torch.empty(x.numel() * 4, device=x.device)
    result = torch.empty_like(x)
    del scratch
    return result


@torch.library.custom_op("every_byte_own::counted_", mutates_args=("counts",), device_types="cuda")
def counted_(counts: torch.Tensor) -> None:
    """Writes by a kernel that nobody sees."""


@torch.library.custom_op("every_byte_own::anywhere", mutates_args=())
def anywhere(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(1000, device=x.device).sum()


def test_the_kernel_for_cuda_runs_as_a_program_does():
    seen.clear()
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        x = torch.ones(1 << 20, device="cuda")
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        y = doubled(x)
        assert y.is_cuda
        assert y.shape == x.shape
        assert torch.cuda.memory_allocated() == before + x.nbytes
        assert torch.cuda.max_memory_allocated() == before + 5 * x.nbytes
        assert "every_byte_own::doubled" in gpu.operations
        assert not gpu.unmodelled
    assert seen == [("cuda", 0, "cuda")]


def test_on_the_cpu_its_other_kernel_runs():
    with SimulatedGPU("a100-80gb", cuda=True):
        assert doubled(torch.ones(3)).tolist() == [2, 2, 2]


def test_what_it_writes_is_not_known_afterwards():
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        counts = torch.zeros(2, dtype=torch.int64, device="cuda")
        assert counts.tolist() == [0, 0]
        counted_(counts)
        with pytest.warns(UserWarning, match="nothing is computed"):
            counts.tolist()
        assert gpu.trace.notes.values_read


def test_one_kernel_for_all_devices_runs_too():
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        x = torch.ones(1000, device="cuda")
        torch.cuda.reset_peak_memory_stats()
        anywhere(x)
        assert torch.cuda.max_memory_allocated() == 4096 * 2 + 512
        assert not gpu.unmodelled


@torch.library.custom_op("every_byte_own::scaled", mutates_args=(), device_types="cuda")
def scaled(x: torch.Tensor, by: float, times: int = 1) -> torch.Tensor:
    return x * by


@pytest.mark.filterwarnings("ignore:nothing is computed")
def test_a_tensor_may_stand_for_a_number():
    with SimulatedGPU("a100-80gb", cuda=True):
        x = torch.ones(10, device="cuda")
        assert torch.ops.every_byte_own.scaled(x, x.norm(), times=2).shape == (10,)
        with pytest.raises(RuntimeError, match="found type 'Tensor'"):
            torch.ops.every_byte_own.scaled(x, by=x)


def test_the_command_says_that_the_library_s_kernel_runs():
    text = described(torch.ops.every_byte_own.doubled.default)
    assert "  returns   what its library's own kernel for CUDA returns, which runs\n" in text
    assert "  takes     what its library's own kernel for CUDA allocates\n" in text
    assert "composed" not in text

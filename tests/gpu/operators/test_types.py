"""What depends on the type of numbers, or on the card's: figures of the CUDA build, on the card that is named."""

import pytest
import torch

from utils import SimulatedGPU

WORKSPACE = 8_519_680


def test_an_outer_product_of_complex_numbers_is_cublass():
    with SimulatedGPU("a100-80gb") as gpu:
        left = torch.randn(4, 300, 1, device=gpu.device, dtype=torch.complex64)
        right = torch.randn(4, 1, 200, device=gpu.device, dtype=torch.complex64)
        kept = torch.bmm(left, right)
        assert gpu.memory_allocated() == 10_456_064
        del kept


def test_an_outer_product_of_real_numbers_needs_no_workspace():
    with SimulatedGPU("a100-80gb") as gpu:
        for dtype in (torch.float64, torch.float16):
            torch.bmm(
                torch.empty(4, 300, 1, device=gpu.device, dtype=dtype),
                torch.empty(4, 1, 200, device=gpu.device, dtype=dtype),
            )
        assert gpu.memory_allocated() == 0


def test_the_largest_of_several_tensors_need_a_buffer():
    with SimulatedGPU("a100-80gb") as gpu:
        tensors = [torch.zeros(9, device=gpu.device) for _ in range(7)]
        torch._foreach_max(tensors)
        assert [e.n_bytes for e in gpu.trace if e.action == "alloc"][7:] == [28, *[4] * 7]
        assert not gpu.unmodelled


def _float8(gpu):
    x = torch.empty(64, 64, device=gpu.device, dtype=torch.float8_e4m3fn)
    return x, torch.empty(64, 64, device=gpu.device, dtype=torch.float8_e4m3fn).t(), torch.ones((), device=gpu.device)


@pytest.mark.parametrize("name", ["t4-16gb", "a100-80gb", "rtx3090-24gb"])
def test_float8_is_not_multiplied_before_ada(name):
    with SimulatedGPU(name) as gpu:
        left, right, scale = _float8(gpu)
        with pytest.raises(RuntimeError, match="only supported .* 9.0 or 8.9.* has [78]"):
            torch._scaled_mm(left, right, scale, scale, out_dtype=torch.bfloat16)


@pytest.mark.parametrize(("name", "workspace"), [("l40s-48gb", WORKSPACE), ("h100-80gb", 33_554_432)])
def test_a_product_of_float8_leaves_the_workspace(name, workspace):
    with SimulatedGPU(name) as gpu:
        left, right, scale = _float8(gpu)
        for _ in range(2):
            kept = torch._scaled_mm(left, right, scale, scale, out_dtype=torch.bfloat16)
        assert gpu.memory_allocated() == 2 * 4096 + 512 + 8192 + workspace
        assert not gpu.unmodelled
        del kept

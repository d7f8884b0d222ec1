"""Fake quantization and fused steps by a rate in a tensor: what each takes, as recorded over the CUDA build (A100)."""

import pytest
import torch

from utils import SimulatedGPU


@pytest.fixture
def gpu():
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        yield gpu


def taken(gpu, function) -> list[int]:
    """The bytes of each allocation that a call makes, in order."""
    before = len(gpu.trace.events)
    function()
    return [event.n_bytes for event in gpu.trace.events[before:] if event.action == "alloc"]


def numbers(*shape, **options):
    return torch.ones(*shape, device="cuda", **options)


FORMS = {
    "tensor": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127), [12000, 3000]),
    "parameters": (
        lambda x: torch.fake_quantize_per_tensor_affine(x, numbers(1), numbers(1, dtype=torch.int32), -128, 127),
        [4, 4, 8, 12000, 3000],
    ),
    "channel": (
        lambda x: torch.fake_quantize_per_channel_affine(x, numbers(30), numbers(30, dtype=torch.int32), 1, -128, 127),
        [120, 120, 4, 4, 12000, 3000],
    ),
    "learnable": (
        lambda x: torch._fake_quantize_learnable_per_tensor_affine(x, numbers(1), numbers(1), -128, 127, 1.0),
        [4, 4, 12000, 3000],
    ),
    "learnable channel": (
        lambda x: torch._fake_quantize_learnable_per_channel_affine(x, numbers(30), numbers(30), 1, -128, 127, 1.0),
        [120, 120, 120, 120, 4, 4, 12000, 3000],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_takes_what_was_recorded(gpu, form):
    quantize, recorded = FORMS[form]
    x = numbers(100, 30)
    assert taken(gpu, lambda: quantize(x)) == recorded
    assert not gpu.unmodelled


def test_a_wrong_range_is_refused_as_by_pytorch(gpu):
    with pytest.raises(RuntimeError, match="`zero_point` must be between `quant_min` and `quant_max`"):
        torch.fake_quantize_per_tensor_affine(numbers(3), 0.1, 300, -128, 127)
    with pytest.raises(RuntimeError, match="`quant_min` should be less than or"):
        torch.fake_quantize_per_tensor_affine(numbers(3), 0.1, 0, 127, -128)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_a_fused_step_by_a_rate_in_a_tensor_takes_nothing(gpu, name, device):
    p = torch.nn.Parameter(numbers(300, 13))
    optimizer = getattr(torch.optim, name)([p], lr=torch.tensor(1e-3, device=device), fused=True)
    p.grad = numbers(300, 13)
    optimizer.step()
    assert taken(gpu, optimizer.step) == []

"""Which kernel would take an attention, as a program may ask: the answers of the CUDA build over stub libraries."""

import pytest
import torch
from torch.backends.cuda import (
    SDPAParams,
    can_use_cudnn_attention,
    can_use_efficient_attention,
    can_use_flash_attention,
)

from every_byte.gpu.simulated import SimulatedGPU

QUESTIONS = can_use_flash_attention, can_use_efficient_attention, can_use_cudnn_attention


@pytest.mark.parametrize(
    ("card", "dtype", "answers"),
    [
        ("a100-80gb", torch.float32, (False, True, False)),
        ("a100-80gb", torch.bfloat16, (True, True, True)),
        ("t4-16gb", torch.bfloat16, (False, False, False)),
        ("t4-16gb", torch.float16, (False, True, False)),
    ],
)
def test_answers_are_those_of_the_card(card, dtype, answers):
    with SimulatedGPU(card, cuda=True):
        q = torch.randn(2, 4, 33, 16, device="cuda", dtype=dtype)
        asked = SDPAParams(q, q, q, None, 0.0, False, False)
        assert tuple(can_use(asked) for can_use in QUESTIONS) == answers
        on_the_cpu = SDPAParams(*[torch.randn(2, 4, 33, 16)] * 3, None, 0.0, False, False)
        assert not can_use_flash_attention(on_the_cpu)


def test_nested_tensors_take_the_fused_kernel_where_cuda_is_simulated():
    """An a100: 30 and 500 rows of 4 heads of 16, bfloat16; figures of the CUDA build."""
    with SimulatedGPU("a100-80gb", cuda=True):
        rows = [torch.randn(n, 64) for n in (30, 500)]
        kinds = dict(layout=torch.jagged, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        q = torch.nested.nested_tensor(rows, **kinds).unflatten(-1, (4, 16)).transpose(1, 2)
        before = torch.cuda.memory_allocated()
        y = torch.nn.functional.scaled_dot_product_attention(q, q, q)
        assert torch.cuda.memory_allocated() - before == 186_816 - 107_968
        y.transpose(1, 2).flatten(-2).values().sum().backward()


def test_padding_is_differentiated():
    """The figure that the CUDA build ends at, on an a100."""
    with SimulatedGPU("a100-80gb", cuda=True):
        rows = [torch.randn(3, 4), torch.randn(5, 4)]
        t = torch.nested.nested_tensor(rows, layout=torch.jagged, device="cuda", requires_grad=True)
        y = t.to_padded_tensor(0.0)
        y.sum().backward()
        assert torch.cuda.memory_allocated() == 2048

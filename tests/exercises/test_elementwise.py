"""What a reader's element-wise function keeps, and whether its gradient is that of finite differences."""

import pytest
import torch

from utils.exercises.elementwise import ELEMENTS, differs, extra_bytes


class Doubled(torch.autograd.Function):
    """Twice its input, with a gradient that forgets the incoming one."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, incoming):
        return torch.full_like(incoming, 2)


@pytest.mark.parametrize(
    ("function", "bytes_each"), [(torch.exp, 0), (torch.sin, 4), (torch.relu, 0), (lambda x: x.sin().exp(), 4)]
)
def test_bytes_in_addition_to_the_output(function, bytes_each):
    assert extra_bytes(function) == bytes_each * ELEMENTS


def test_differences():
    x = torch.tensor([-1.5, 0.25, 2.0], dtype=torch.float64, requires_grad=True)
    assert differs(torch.sin, x) == ""
    assert "Did you multiply by the incoming gradient?" in differs(Doubled.apply, x)

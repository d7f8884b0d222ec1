"""A composite that makes a storage of which no part of it tells: it is named, and what others make is not."""

import pytest
import torch


def test_a_lazy_clone_is_named(gpu):
    x = torch.ones(300, device=gpu.device)
    with pytest.warns(UserWarning, match="_lazy_clone"):
        y = torch._lazy_clone(x)
    assert y.shape == x.shape
    assert gpu.unmodelled == {"aten::_lazy_clone"}


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.reshape(3, 100),
        lambda x: x.view(30, 10).reshape(10, 30).t().contiguous(),
        lambda x: torch.nn.functional.linear(x, x.view(1, 300)),
        lambda x: x.expand(2, 300).flatten(),
        lambda x: x[:0].reshape(0, 4),
        lambda x: torch.einsum("i,j->ij", x, x),
        lambda x: x.to(torch.float16),
        lambda x: torch.chunk(x, 3)[1],
    ],
)
def test_what_its_parts_make_is_seen(gpu, make):
    make(torch.ones(300, device=gpu.device))
    assert gpu.unmodelled == frozenset()

"""Tensors that get data on another device: they stay the objects they are, as on CUDA."""

import pytest
import torch
import torch.nn as nn
from running import ones


def test_a_parameter_gets_its_data_on_the_gpu(gpu):
    layer = nn.Linear(4, 3)
    weight, bias = layer.weight, layer.bias
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    for p in layer.parameters():
        p.data = p.data.to(gpu.device)
    assert layer.weight is weight
    assert isinstance(weight, nn.Parameter)
    assert (weight.is_meta, weight.is_leaf, weight.requires_grad) == (True, True, True)
    assert gpu.memory_stats()["requested_bytes.all.current"] == 4 * (12 + 3)
    layer(ones(gpu, 2, 4)).sum().backward()
    optimizer.step()
    assert weight.grad.is_meta
    assert optimizer.state[bias]["momentum_buffer"].is_meta


def test_the_data_is_shared_with_what_was_assigned(gpu):
    p, data = nn.Parameter(torch.ones(5)), ones(gpu, 5)
    p.data = data
    assert p.untyped_storage()._cdata == data.untyped_storage()._cdata
    assert data.is_meta
    assert not data.requires_grad
    before = gpu.memory_allocated()
    del data
    assert gpu.memory_allocated() == before
    del p
    assert gpu.memory_allocated() == 0


def test_back_to_the_cpu_and_within_one_device(gpu):
    p = nn.Parameter(ones(gpu, 5))
    p.data = ones(gpu, 7)
    assert p.shape == (7,)
    p.data = torch.full((3,), 2.0)
    assert p.tolist() == [2.0, 2.0, 2.0]
    assert gpu.memory_allocated() == 0
    plain = torch.ones(3)
    plain.data = plain.data.to(gpu.device)
    assert plain.is_meta
    assert not plain.requires_grad


def test_what_cannot_cross_by_data_says_what_can(gpu):
    p = nn.Parameter(torch.ones(3))
    p.sum().backward()
    with pytest.raises(RuntimeError, match=r"must have no gradient .* shape \(3,\) has one; .*module.to\(gpu.device\)"):
        p.data = ones(gpu, 3)
    with pytest.raises(RuntimeError, match=r"must be a leaf .* shape \(3,\) has a grad_fn"):
        (p * 2).data = ones(gpu, 3)
    p.grad = None
    p.data = ones(gpu, 3)
    assert p.is_meta


def test_data_is_pytorchs_own_again(gpu):
    assert "data" in vars(torch.Tensor)
    gpu.close()
    assert "data" not in vars(torch.Tensor)
    p = nn.Parameter(torch.ones(3))
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        p.data = torch.ones(3, device="meta")

"""What is refused says the rule and the way out."""

import pytest
import torch
from torch import nn

from every_byte import SimulatedGPU


@pytest.mark.parametrize("optimizer", [torch.optim.SparseAdam, torch.optim.Adagrad])
def test_sparse_gradients_are_for_sgd(optimizer):
    with SimulatedGPU("a100-80gb") as gpu:
        net = nn.Embedding(10, 4, sparse=True, device=gpu.device)
        steps = optimizer(net.parameters())
        net(torch.zeros(3, 5, dtype=torch.long, device=gpu.device)).sum().backward()
        with pytest.raises(NotImplementedError, match=r"on its way to SGD.*use dense gradients \(sparse=False"):
            steps.step()


def test_a_sparse_tensor_of_one_s_own():
    with SimulatedGPU("a100-80gb") as gpu:
        indices = torch.zeros(1, 2, dtype=torch.long, device=gpu.device)
        values = torch.ones(2, device=gpu.device)
        x = torch.sparse_coo_tensor(indices, values, (3,), check_invariants=False)
        with pytest.raises(NotImplementedError, match="a tensor must be dense, or"):
            x.to_dense()


def test_a_tensor_of_the_cpu_among_others():
    with SimulatedGPU("a100-80gb") as gpu:
        weight, places = torch.zeros(4, 2, device=gpu.device), torch.zeros(3, dtype=torch.long)
        with pytest.raises(RuntimeError, match=r"a CPU tensor of shape \(3,\); move .*may take that for one"):
            nn.functional.embedding(places, weight)

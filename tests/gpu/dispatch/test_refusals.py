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
    with SimulatedGPU("a100-80gb") as gpu, pytest.raises(NotImplementedError, match="a tensor must be dense, or"):
        indices = torch.zeros(1, 2, dtype=torch.long, device=gpu.device)
        torch.sparse_coo_tensor(indices, torch.ones(2, device=gpu.device), (3,), check_invariants=False).to_dense()

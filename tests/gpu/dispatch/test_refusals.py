"""What is refused says the rule and the way out."""

import pytest
import torch
from torch import nn

from every_byte import SimulatedGPU


@pytest.mark.parametrize(
    "operation",
    [torch.sum, lambda x: x.to_sparse_csr(), lambda x: x * x, lambda x: torch.sparse.softmax(x, 0), lambda x: x.abs()],
)
def test_what_is_not_followed_of_sparse_tensors(operation):
    with SimulatedGPU("a100-80gb") as gpu:
        indices = torch.zeros(1, 2, dtype=torch.long, device=gpu.device)
        values = torch.ones(2, device=gpu.device)
        x = torch.sparse_coo_tensor(indices, values, (3,), check_invariants=False)
        with pytest.raises(NotImplementedError, match=r"of a sparse tensor is not followed.*\(x\.to_dense"):
            operation(x)
    assert gpu.trace.notes.refused


def test_a_tensor_of_the_cpu_among_others():
    with SimulatedGPU("a100-80gb") as gpu:
        weight, places = torch.zeros(4, 2, device=gpu.device), torch.zeros(3, dtype=torch.long)
        with pytest.raises(RuntimeError, match=r"a CPU tensor of shape \(3,\); move .*may take that for one"):
            nn.functional.embedding(places, weight)

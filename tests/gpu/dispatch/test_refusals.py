"""What is refused says the rule and the way out."""

import pytest
import torch
from torch import nn

from every_byte import SimulatedGPU


@pytest.mark.filterwarnings("ignore:.*is not modelled")
@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_sparse_gradients(kind):
    with SimulatedGPU("a100-80gb") as gpu:
        rows = kind(10, 4, sparse=True, device=gpu.device)(torch.zeros(3, 5, dtype=torch.long, device=gpu.device))
        with pytest.raises(NotImplementedError, match=r"storage of its own.*use dense gradients \(sparse=False"):
            rows.sum().backward()


def test_a_tensor_of_the_cpu_among_others():
    with SimulatedGPU("a100-80gb") as gpu:
        weight, places = torch.zeros(4, 2, device=gpu.device), torch.zeros(3, dtype=torch.long)
        with pytest.raises(RuntimeError, match=r"a CPU tensor of shape \(3,\); move .*may take that for one"):
            nn.functional.embedding(places, weight)

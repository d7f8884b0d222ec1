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

"""The parameters of published models: against modules of their shapes, and against what was published."""

import pytest
from torch import nn

from utils.formulas.published import SHAPES, gated_parameter_count
from utils.models.gated import GatedMLP

PUBLISHED = {  # what the checkpoints hold
    "Llama 3.2 1B": 1_235_814_400,
    "Llama 2 7B": 6_738_415_616,
    "Llama 2 70B": 68_976_648_192,
    "Llama 3.1 405B": 405_853_388_800,
}


def counted(L, d, k, w, V, E):
    """Of one block and what lies outside, as modules."""
    projections = [nn.Linear(d, n, bias=False, device="meta") for n in (d, k, k, d)]
    block = nn.ModuleList([*projections, GatedMLP(d, w, device="meta"), *(nn.RMSNorm(d, device="meta") for _ in "12")])
    outside = nn.ModuleList([*(nn.Embedding(V, d, device="meta") for _ in range(E)), nn.RMSNorm(d, device="meta")])
    of_block, of_rest = (sum(parameter.numel() for parameter in part.parameters()) for part in (block, outside))
    return L * of_block + of_rest


@pytest.mark.parametrize("name", SHAPES)
def test_parameters(name):
    assert gated_parameter_count().value(SHAPES[name]) == counted(**SHAPES[name]) == PUBLISHED[name]

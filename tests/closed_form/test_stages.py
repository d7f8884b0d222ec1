"""Stages: which lists of modules hold them, what a module in one is called, and a peak that is in one of several."""

import pytest
import torch
from torch import nn

from every_byte.account import account, numbers
from every_byte.closed_form.stages import kind_in, stages_of


def paths(n_layers: int) -> frozenset[str]:
    inner = [f"stages.{i}.layers.{j}.mlp" for i in range(4) for j in range(n_layers)]
    return frozenset([*inner, *(f"blocks.{j}.parts.{i}" for i in range(3) for j in range(n_layers)), "head", "norms.0"])


def test_lists_as_long_of_lists_that_are_not():
    """A block's parts are as many, too: but they are in what is not."""
    assert stages_of([[paths(1), paths(2)], [paths(2), paths(2)]]) == {"stages"}
    assert stages_of([[paths(2), paths(2)]]) == frozenset()
    assert stages_of([[frozenset({"0.0", "1.0"}), frozenset({"0.0", "0.1", "1.0", "1.1"})]]) == {""}


def test_what_a_module_is_called():
    stages = frozenset({"stages"})
    assert kind_in("stages.3.layers.0.mlp", stages) == "stages.3.layers.*.mlp"
    assert kind_in("blocks.0.parts.2", stages) == "blocks.*.parts.*"
    assert kind_in("stages.3.layers.0.mlp", frozenset()) == "stages.*.layers.*.mlp"


class InStages(nn.Module):
    """Three stages of so many layers: the first ones of more rows, the later ones of more columns."""

    def __init__(self, c: int, L: int) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            nn.Sequential(*(nn.Sequential(nn.Linear(c << i, c << i), nn.GELU()) for _ in range(L))) for i in range(3)
        )

    def forward(self, x):
        for i, stage in enumerate(self.stages):
            x = stage(torch.cat([x[::8], x[::8]], -1) if i else x)
        return x


@pytest.mark.nightly
def test_a_peak_in_one_of_several_stages():
    """Whatever the number of layers: the layers of a stage are counted, not those of all before them."""
    trained = account(InStages, numbers("64*n", "c"), loss=lambda output, _: output.square().mean(), n=256, c=16, L=2)
    found = trained.formula()
    assert found.is_exact, found
    assert any("stages.1." in str(moment) for moment in found.moments), list(map(str, found.moments))
    assert found.compare(trained).is_exact
    longer = trained.at(L=5)
    assert found.bytes(L=5) == longer.requested_bytes

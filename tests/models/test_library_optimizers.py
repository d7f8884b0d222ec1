"""The optimizers of torchao and bitsandbytes keep the bytes of the rules that the book states, if they are there."""

import pytest
import torch

from utils.experiments.optimizer_states import bitsandbytes_states, torchao_states

SHAPES = ((1000,), (4095,), (4096,), (4097,), (64, 64), (65, 64), (300, 300), (512, 1024))
SIZES = [torch.Size(shape).numel() for shape in SHAPES]

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.filterwarnings("ignore"),  # of other people's packages, which say what they do without a GPU
]


def states_after_a_step(make) -> list[torch.Tensor]:
    """Every tensor that an optimizer keeps after a step on the CPU, each storage once; not counters of 0 dimensions."""
    parameters = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = make(parameters)
    optimizer.step()
    found = {}
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, torch.Tensor) and value.dim():
                found |= {part.data_ptr(): part for part in _parts(value)}
    return list(found.values())


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    if not hasattr(tensor, "tensor_attrs"):
        return [tensor]
    return [getattr(tensor, name) for name in tensor.tensor_attrs]


@pytest.mark.parametrize(("name", "bits"), [("AdamW8bit", 8), ("AdamW4bit", 4)])
def test_torchao_keeps_what_its_rule_says(name, bits, monkeypatch):
    optim = pytest.importorskip("torchao.optim")
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)  # what it keeps is made before
    found = states_after_a_step(getattr(optim, name))
    assert sum(part.nbytes for part in found) == torchao_states(SIZES, bits=bits, element_bytes=4)


def test_bitsandbytes_keeps_what_its_rule_says():
    bitsandbytes = pytest.importorskip("bitsandbytes")
    found = states_after_a_step(bitsandbytes.optim.AdamW8bit)
    assert sum(part.nbytes for part in found) == bitsandbytes_states(SIZES)

"""Low-rank adapters: they begin with nothing, are alone in being trained, and are as many as published."""

import re

import pytest
import torch
from torch import nn

from utils.models.adapters import ATTENTION, EVERY_LINEAR, Adapted, with_adapters
from utils.models.llama import Llama

TINY = {
    "vocabulary_size": 31, "context_length": 9, "n_layers": 2,
    "d_model": 24, "n_heads": 6, "n_kv_heads": 2, "d_mlp": 40,
}  # fmt: skip


def tokens():
    return torch.randint(31, (2, 9))


def test_fresh_adapters_change_nothing():
    model, batch = Llama(**TINY), tokens()
    before = model(batch, batch)[1]
    assert torch.equal(with_adapters(model, 3)(batch, batch)[1], before)
    nn.init.ones_(model.blocks[0].attention.q.expand.weight)
    assert not torch.equal(model(batch, batch)[1], before)


def test_an_adapter_adds_its_scaled_product():
    adapted = Adapted(nn.Linear(5, 7, dtype=torch.float64), rank=2, alpha=6)
    nn.init.normal_(adapted.expand.weight)
    x = torch.randn(3, 5, dtype=torch.float64)
    added = 3 * x @ adapted.reduce.weight.T @ adapted.expand.weight.T
    torch.testing.assert_close(adapted(x), adapted.linear(x) + added)


def test_only_adapters_have_gradients():
    model, batch = with_adapters(Llama(**TINY), 2), tokens()
    model(batch, batch)[1].backward()
    with_gradients = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert with_gradients == {name for name, _ in model.named_parameters() if ".reduce." in name or ".expand." in name}
    assert len(with_gradients) == 2 * len(EVERY_LINEAR) * 2


@pytest.mark.parametrize(("names", "published"), [(("q", "v"), 3_407_872), (EVERY_LINEAR, 20_971_520)])
def test_they_are_as_many_as_published_for_8b(names, published):
    model = with_adapters(Llama.from_name("llama-3-8b", device="meta", context_length=2), 8, names)
    assert sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad) == published


def test_they_have_their_linears_type_and_place():
    linear = Adapted(nn.Linear(4, 4, device="meta", dtype=torch.bfloat16), 1)
    assert {(p.device.type, p.dtype) for p in linear.parameters()} == {("meta", torch.bfloat16)}


def test_what_is_refused():
    message = "names must be those of Linears of the model: got 'query', which it has none of."
    with pytest.raises(ValueError, match=re.escape(message)):
        with_adapters(Llama(**TINY), 8, (*ATTENTION, "query"))
    with pytest.raises(ValueError, match="rank must be a positive integer"):
        with_adapters(Llama(**TINY), 0)

"""Models of Hugging Face's transformers by name of class, from a configuration in letters."""

import inspect

import pytest

from every_byte.account import account, hugging_face, tokens

pytest.importorskip("transformers")
pytestmark = pytest.mark.nightly

SIZES = {
    "hidden_size": "64*a", "num_hidden_layers": "L", "num_attention_heads": "a", "num_key_value_heads": 1,
    "intermediate_size": "3*64*a", "vocab_size": "V", "hidden_act": "silu",
}  # fmt: skip


def test_a_llama_in_letters_has_its_parameters():
    make = hugging_face("LlamaForCausalLM", **SIZES)
    assert list(inspect.signature(make).parameters) == ["a", "L", "V"]
    words = tokens("b", "s", below="V")
    found = account(make, {"input_ids": words, "labels": words}, a=2, L=2, V=301, b=2, s=16)
    model = make(a=2, L=2, V=301)
    assert found.ledger.parts["parameters"] == sum(p.nbytes for p in model.parameters())


def test_what_is_refused():
    with pytest.raises(ValueError, match="name must be a class of a model in transformers .*: got 'NoSuchModel'"):
        hugging_face("NoSuchModel")
    with pytest.raises(ValueError, match="LlamaConfig must have what is configured: got 'width'"):
        hugging_face("LlamaForCausalLM", width=3)

"""Models of Hugging Face's transformers by name of class, from a configuration in letters."""

import inspect

import pytest
import torch

from every_byte.account import account, hugging_face, tokens

transformers = pytest.importorskip("transformers")
SMALL_T5 = {"d_model": "8*a", "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": "a", "vocab_size": "V"}

SIZES = {
    "hidden_size": "64*a", "num_hidden_layers": "L", "num_attention_heads": "a", "num_key_value_heads": 1,
    "intermediate_size": "3*64*a", "vocab_size": "V", "hidden_act": "silu",
}  # fmt: skip


@pytest.mark.nightly
def test_a_llama_in_letters_has_its_parameters():
    make = hugging_face("LlamaForCausalLM", **SIZES)
    assert list(inspect.signature(make).parameters) == ["a", "L", "V"]
    words = tokens("b", "s", below="V")
    found = account(make, {"input_ids": words, "labels": words}, a=2, L=2, V=301, b=2, s=16)
    model = make(a=2, L=2, V=301)
    assert found.ledger.parts["parameters"] == sum(p.nbytes for p in model.parameters())


@pytest.mark.long
def test_a_setting_that_the_model_reads_and_its_configuration_has_no_default_for():
    """T5 shifts its labels to the right, and asks the configuration what they then begin with."""
    make = hugging_face("T5ForConditionalGeneration", decoder_start_token_id=3, **SMALL_T5)
    assert list(inspect.signature(make).parameters) == ["a", "V"]
    model = make(a=2, V=31)
    assert not hasattr(transformers.T5Config(), "decoder_start_token_id")
    assert model.config.decoder_start_token_id == 3
    assert model._shift_right(torch.tensor([[7, 8, 9]])).tolist() == [[3, 7, 8]]


@pytest.mark.nightly
def test_a_t5_trains():
    make = hugging_face("T5ForConditionalGeneration", decoder_start_token_id=0, **SMALL_T5)
    words = tokens("b", "s", below="V")
    found = account(make, {"input_ids": words, "labels": words}, a=2, V=31, b=2, s=16)
    assert found.ledger.parts["parameters"] == sum(p.nbytes for p in make(a=2, V=31).parameters())


@pytest.mark.parametrize(
    ("setting", "value", "kept"),
    [
        ("attn_implementation", "eager", lambda config: config._attn_implementation),
        ("num_labels", 7, lambda config: config.num_labels),
        ("num_labels", "2*V", lambda config: config.num_labels // 2),
        ("problem_type", "regression", lambda config: config.problem_type),
        ("dtype", "bfloat16", lambda config: str(config.dtype).removeprefix("torch.")),
        ("num_decoder_layers", "V", lambda config: config.num_decoder_layers),
    ],
)
def test_settings_that_are_taken_by_a_keyword_and_words_that_are_no_letters(setting, value, kept):
    make = hugging_face("T5ForConditionalGeneration", **{**SMALL_T5, "num_heads": 1, "d_model": 8, setting: value})
    assert list(inspect.signature(make).parameters) == ["V"]
    assert kept(make(V=3).config) == (3 if "V" in str(value) else value)


def test_a_setting_of_rotary_positions_is_one_where_there_are_some():
    model = hugging_face("LlamaForCausalLM", rope_theta=7.0, **SIZES)(a=1, L=1, V=9)
    assert model.config.rope_parameters["rope_theta"] == 7
    with pytest.raises(ValueError, match="T5Config must have what is configured: got 'rope_theta'"):
        hugging_face("T5ForConditionalGeneration", rope_theta=7.0)


def test_what_is_refused():
    with pytest.raises(ValueError, match="name must be a class of a model in transformers .*: got 'NoSuchModel'"):
        hugging_face("NoSuchModel")
    with pytest.raises(ValueError, match="LlamaConfig must have what is configured: got 'width'"):
        hugging_face("LlamaForCausalLM", width=3)
    for unknown in ("decoder_start_token", "cache_dir", "num_beams", "to_dict_of", "_attn_implementation_of"):
        with pytest.raises(
            ValueError, match=f"T5Config must have what is configured: got '{unknown}'.*; it has archit"
        ):
            hugging_face("T5ForConditionalGeneration", **{unknown: 3})
    with pytest.raises(ValueError, match="LlamaConfig must have .* got 'decoder_start_token_id'.*; it has .*attn_impl"):
        hugging_face("LlamaForCausalLM", decoder_start_token_id=0)


def test_a_slip_of_the_key_is_answered_with_the_likeliest_name():
    with pytest.raises(ValueError, match="got 'hiden_size', did you mean 'hidden_size'?"):
        hugging_face("LlamaForCausalLM", hiden_size=64)
    with pytest.raises(ValueError, match="got 'LlamaForCausalLMM', did you mean 'LlamaForCausalLM'?"):
        hugging_face("LlamaForCausalLMM")

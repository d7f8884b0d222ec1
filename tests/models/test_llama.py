"""The book's Llama: its numbers on the CPU beside Hugging Face's, its shapes, and what it refuses."""

import math
import re

import pytest
import torch

from every_byte.remedies.losses import half_logits
from utils.models.llama import SIZES, Llama, turned
from utils.models.regions import library_checkpoint

PUBLISHED = {
    "llama-2-7b": 6_738_415_616,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
}
"""What the models' own files hold."""
TINY = {
    "vocabulary_size": 31, "context_length": 9, "n_layers": 2,
    "d_model": 24, "n_heads": 6, "n_kv_heads": 2, "d_mlp": 40,
}  # fmt: skip


def tiny(**changes) -> Llama:
    torch.manual_seed(0)
    return Llama(**TINY | {"dtype": torch.float64} | changes)


def batch(b=2, s=9, V=31):
    torch.manual_seed(1)
    return torch.randint(V, (b, s)), torch.randint(V, (b, s))


def loss_and_gradients(model):
    _, loss = model(*batch())
    loss.backward()
    return loss.detach(), torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@pytest.mark.long
@pytest.mark.parametrize("name", SIZES)
def test_it_has_the_parameters_of_the_published_model(name):
    model = Llama.from_name(name, device="meta", context_length=2)
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[name]


@pytest.mark.nightly
@pytest.mark.parametrize("changes", [{}, {"n_kv_heads": 6}, {"is_tied": True}])
def test_explicit_and_sdpa_give_the_same_loss_and_gradients(changes):
    (loss, gradients), (other_loss, others) = (loss_and_gradients(tiny(kind=kind, **changes)) for kind in KINDS)
    torch.testing.assert_close(loss, other_loss, rtol=1e-6, atol=0)  # the loss itself is in float32
    torch.testing.assert_close(gradients, others, rtol=1e-5, atol=1e-9)
    assert gradients.abs().max() > 1e-3


KINDS = ("sdpa", "explicit")


def test_a_checkpoint_of_each_block_changes_no_number():
    (loss, gradients), (other_loss, others) = (
        loss_and_gradients(tiny(**how)) for how in ({}, {"run": library_checkpoint})
    )
    assert loss == other_loss
    assert torch.equal(gradients, others)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_a_fresh_model_knows_nothing_and_learns(kind):
    model = tiny(kind=kind)
    optimizer, (tokens, _) = torch.optim.AdamW(model.parameters(), lr=1e-2), batch()
    assert abs(model(tokens[:, :-1], tokens[:, 1:])[1].item() - math.log(31)) < 0.1
    for _ in range(60):
        optimizer.zero_grad()
        _, loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.5


def test_no_position_sees_what_comes_after_it():
    for kind in KINDS:
        model, (tokens, targets) = tiny(kind=kind), batch()
        changed = tokens.clone()
        changed[:, 5:] = (changed[:, 5:] + 1) % 31
        one, other = (model(some, targets)[0] for some in (tokens, changed))
        torch.testing.assert_close(one[:, :5], other[:, :5], rtol=1e-12, atol=1e-14)
        assert (one[:, 5:] - other[:, 5:]).abs().min() > 0


def test_what_two_turned_vectors_say_of_each_other_depends_on_their_distance_alone():
    rotation = tiny(context_length=64, dtype=None).rotation(64, torch.float64)
    q, k = torch.randn(2, 1, 1, 1, 4, dtype=torch.float64).expand(2, 1, 64, 1, 4)
    products = (turned(q, rotation)[0, :, 0] @ turned(k, rotation)[0, :, 0].T).diagonal(offset=-7)
    torch.testing.assert_close(products, products[:1].expand_as(products), rtol=1e-4, atol=1e-6)
    assert torch.equal(turned(q, rotation)[0, 0], q[0, 0])


@pytest.mark.nightly
def test_it_computes_what_transformers_llama_computes():
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 31, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6}
    config = transformers.LlamaConfig(
        **sizes, num_key_value_heads=2, intermediate_size=40, rms_norm_eps=1e-5, rope_theta=500_000.0
    )
    theirs, ours = transformers.LlamaForCausalLM(config).double(), tiny()
    names = {
        "embed_tokens": "tokens", "layers": "blocks", "self_attn": "attention", "q_proj": "q", "k_proj": "k",
        "v_proj": "v", "o_proj": "out", "gate_proj": "gate", "up_proj": "up", "down_proj": "down",
        "input_layernorm": "norm1", "post_attention_layernorm": "norm2", "lm_head": "head",
    }  # fmt: skip
    state = {
        ".".join(names.get(part, part) for part in name.removeprefix("model.").split(".")): value
        for name, value in theirs.state_dict().items()
    }
    ours.load_state_dict(state)
    tokens, targets = batch()
    torch.testing.assert_close(ours(tokens, targets)[0], theirs(tokens).logits, rtol=1e-5, atol=1e-6)


def test_without_targets_it_returns_the_last_position():
    model, (tokens, targets) = tiny(), batch()
    logits, loss = model(tokens)
    assert loss is None
    torch.testing.assert_close(logits[:, 0], model(tokens, targets)[0][:, -1])


def test_a_target_of_minus_one_does_not_count():
    model, (tokens, targets) = tiny(), batch()
    targets[:, 1:] = -1
    _, loss = model(tokens, targets)
    _, of_first = model(tokens[:, :1], targets[:, :1])
    torch.testing.assert_close(loss, of_first)


def test_the_loss_is_computed_in_float32_unless_the_model_is_told_otherwise():
    tokens, targets = batch()
    assert tiny(dtype=torch.bfloat16)(tokens, targets)[1].dtype == torch.float32
    assert tiny(dtype=torch.bfloat16, loss=half_logits)(tokens, targets)[1].dtype == torch.bfloat16


REFUSED = {
    "d_model must be a positive integer: got d_model=0": {"d_model": 0},
    "n_heads must divide d_model into even parts, whose halves are turned: got n_heads=8, d_model=24": {"n_heads": 8},
    "n_kv_heads must divide n_heads: got n_kv_heads=4, n_heads=6": {"n_kv_heads": 4},
    'kind must be "sdpa" or "explicit": got kind=\'flash\'': {"kind": "flash"},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_it_refuses(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        tiny(**REFUSED[message])


def test_an_unknown_name_and_tokens_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="name must be one of llama-2-7b, .*: got name='llama-4'"):
        Llama.from_name("llama-4")
    model = tiny()
    with pytest.raises(ValueError, match=re.escape("tokens must be tokens[b, s]: got 1 dimensions, (9,)")):
        model(torch.zeros(9, dtype=torch.int64))
    with pytest.raises(ValueError, match="context_length=9 positions at most: got 10"):
        model(torch.zeros(1, 10, dtype=torch.int64))

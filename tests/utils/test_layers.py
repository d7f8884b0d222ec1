"""The layers have the shapes, parameters and messages that the chapters rely on."""

import re

import pytest
import torch
from activation_variants import OTHERS, variants
from reference_files import load
from running import cases, module_of, run_case, up_to_last_mark
from torch import nn

from utils import AllocatedMemContext, SavedTensorContext, SimulatedGPU, Trace
from utils.layers import MLP, Attention, Block, LinearStack, make_activation


def test_mlp_is_linear_activation_linear_dropout():
    mlp = MLP(6, nn.GELU(), 0.1)
    x = torch.randn(2, 3, 6)
    assert [name for name, _ in mlp.named_children()] == ["up", "activation", "down", "dropout"]
    assert {name: tuple(p.shape) for name, p in mlp.named_parameters()} == {
        "up.weight": (24, 6),
        "up.bias": (24,),
        "down.weight": (6, 24),
        "down.bias": (6,),
    }
    mlp.eval()
    by_hand = nn.functional.gelu(x @ mlp.up.weight.T + mlp.up.bias) @ mlp.down.weight.T + mlp.down.bias
    torch.testing.assert_close(mlp(x), by_hand)
    mlp.train()
    assert (mlp(torch.randn(50, 50, 6)) == 0).any()


@pytest.mark.parametrize("probability", [None, 0, 0.0, 0.5])
def test_mlp_takes_dropout_or_none(probability):
    assert MLP(4, "relu", probability).dropout.p == (probability or 0.0)


def test_mlp_puts_everything_where_it_is_told():
    mlp = MLP(4, "PReLU", 0.1, "meta", torch.bfloat16, bias=False)
    assert {(p.device.type, p.dtype) for p in mlp.parameters()} == {("meta", torch.bfloat16)}
    assert {name for name, _ in mlp.named_parameters()} == {"up.weight", "activation.weight", "down.weight"}


@pytest.mark.parametrize("label", sorted(variants()))
def test_an_activation_is_found_by_instance_class_and_name(label):
    name, make = variants()[label]
    instance = make()
    assert make_activation(instance) is instance
    if name.startswith("Threshold"):
        with pytest.raises(ValueError, match=r"no default settings: pass an instance, as nn\.Threshold\(0\.1, 0\.0\)"):
            make_activation(name)
        return
    found = make_activation(name)
    assert type(found) is type(instance)
    assert getattr(found, "inplace", False) == name.endswith("_")
    assert getattr(found, "dim", -1) == -1
    assert type(make_activation(name.lower())) is type(instance)
    assert type(make_activation(type(instance))) is type(instance)


def test_names_ignore_underscores_but_the_last():
    assert make_activation("leaky_relu_").inplace
    assert not make_activation("leaky_relu").inplace
    assert isinstance(make_activation("log_softmax"), nn.LogSoftmax)


@pytest.mark.parametrize("size", [0, -1, 2.0, True, "4"])
def test_mlp_refuses_a_width_that_is_none(size):
    with pytest.raises(ValueError, match=rf"d_model must be a positive integer: got d_model={size!r}"):
        MLP(size, "relu")


@pytest.mark.parametrize("probability", [1, 1.0, -0.1, 2])
def test_mlp_refuses_a_dropout_outside_its_range(probability):
    message = rf"dropout_prob must lie in \[0, 1\): got dropout_prob={probability}; None or 0 switches dropout off"
    with pytest.raises(ValueError, match=message):
        MLP(4, "relu", probability)


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_mlp_refuses_what_changes_the_width(name):
    with pytest.raises(ValueError, match=f"act_fn must keep the width and take one input: got {name}"):
        MLP(4, name)


def test_mlp_refuses_glu_as_an_instance_too():
    with pytest.raises(ValueError, match="act_fn must keep the width and take one input: got GLU"):
        MLP(4, nn.GLU())


def test_unknown_activations_are_named():
    with pytest.raises(ValueError, match="act_fn must be an activation of torch.nn: got 'gello'; one of CELU, ELU"):
        MLP(4, "gello")
    with pytest.raises(ValueError, match="act_fn GELU has no in-place form: got 'gelu_'; try 'gelu'"):
        MLP(4, "gelu_")
    with pytest.raises(TypeError, match="act_fn must be an activation, its class or its name: got 7; try 'gelu'"):
        MLP(4, 7)


def test_linear_stack_is_the_chain_of_article_b():
    stack = LinearStack()
    assert len(stack.hidden) == 200
    assert stack.first.bias is not None
    assert stack.last.bias is not None
    assert all(layer.bias is None for layer in stack.hidden)
    parameters = sum(p.numel() for p in stack.parameters())
    assert parameters == 100 * 100 + 100 + 200 * 100 * 100 + 100 * 10 + 10
    assert stack(torch.randn(64, 100)).shape == (64, 10)


def test_linear_stack_puts_relu_behind_hidden_layers_only():
    with_relu, without = LinearStack(3, 4, 2, 2, relu=True), LinearStack(3, 4, 2, 2)
    without.load_state_dict(with_relu.state_dict())
    x = torch.randn(5, 3)
    h = with_relu.first(x)
    for layer in with_relu.hidden:
        h = torch.relu(layer(h))
    assert torch.equal(with_relu(x), with_relu.last(h))
    assert torch.equal(without(x), without.last(without.hidden[1](without.hidden[0](without.first(x)))))


def test_linear_stack_freezes_a_range():
    stack = LinearStack(3, 4, 2, 5, frozen=range(2, 4))
    assert [layer.weight.requires_grad for layer in stack.hidden] == [True, False, False, True, True]
    assert all(p.requires_grad for p in [*stack.first.parameters(), *stack.last.parameters()])
    first_two, last_two = (LinearStack(3, 4, 2, 1, frozen=frozen) for frozen in (range(2), range(1, 3)))
    assert [name for name, p in first_two.named_parameters() if p.requires_grad] == ["last.weight", "last.bias"]
    assert [name for name, p in last_two.named_parameters() if p.requires_grad] == ["first.weight", "first.bias"]
    assert LinearStack(3, 4, 2, 0)(torch.randn(1, 3)).shape == (1, 2)


def test_linear_stack_refuses_what_cannot_be():
    with pytest.raises(
        ValueError, match=r"frozen must lie within range\(0, 5\), from first to last: got range\(4, 6\)"
    ):
        LinearStack(n_hidden=3, frozen=range(4, 6))
    with pytest.raises(TypeError, match=r"frozen must be a range of layers: got 5; try range\(1, 4\)"):
        LinearStack(n_hidden=3, frozen=5)
    with pytest.raises(ValueError, match="width must be a positive integer: got width=0"):
        LinearStack(width=0)
    with pytest.raises(ValueError, match="n_hidden must be a positive integer: got n_hidden=-1"):
        LinearStack(n_hidden=-1)


KINDS = {"sdpa": {}, "explicit": {"kind": "explicit", "context_length": 9}}


def block_of(kind, *arguments, **options):
    return Block(12, 3, *arguments, **KINDS[kind], **options)


def test_block_has_the_parts_of_a_pre_norm_block():
    block = block_of("explicit", "gelu", 0.1, dtype=torch.float64)
    assert [name for name, _ in block.named_children()] == ["norm1", "attention", "norm2", "mlp"]
    assert [name for name, _ in block.attention.named_children()] == ["qkv", "out", "weight_dropout", "dropout"]
    # 12 d^2 in the Linears, 9 d in their biases, 4 d in the norms
    assert sum(p.numel() for p in block.parameters()) == 12 * 12 * 12 + 9 * 12 + 4 * 12
    assert {p.dtype for p in block.parameters()} == {torch.float64}
    block.eval()
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    middle = x + block.attention(nn.functional.layer_norm(x, (12,)))
    torch.testing.assert_close(block(x), middle + block.mlp(nn.functional.layer_norm(middle, (12,))))


def test_the_mask_is_a_buffer_of_floats_of_the_explicit_kind_alone():
    explicit, sdpa = Attention(12, 3, **KINDS["explicit"]), Attention(12, 3, context_length=9)
    assert torch.equal(explicit.mask, torch.ones(9, 9).tril().view(1, 1, 9, 9))
    assert not list(sdpa.buffers())
    assert explicit.to(torch.bfloat16).mask.dtype == torch.bfloat16


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("s", [1, 2, 9])
def test_no_position_sees_a_later_one(kind, s):
    block = block_of(kind, "gelu", dtype=torch.float64)
    x = torch.randn(2, s, 12, dtype=torch.float64)
    for i in range(s):
        changed = x.clone()
        changed[:, i] = torch.randn(12)
        same = block(changed).isclose(block(x), rtol=0, atol=1e-12).all(dim=-1)  # kernels may sum in another order
        assert same[:, :i].all()
        assert not same[:, i:].any()


@pytest.mark.parametrize("n_heads", [1, 3, 12])
def test_both_kinds_of_attention_agree(n_heads):
    sdpa = Attention(12, n_heads, dtype=torch.float64)
    explicit = Attention(12, n_heads, dtype=torch.float64, **KINDS["explicit"])
    explicit.load_state_dict(sdpa.state_dict() | {"mask": explicit.mask})
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    torch.testing.assert_close(sdpa(x), explicit(x))


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_falls_on_weights_and_output_and_is_off_in_eval(kind):
    block = block_of(kind, "gelu", 0.5)
    x = torch.randn(2, 9, 12)
    assert not torch.equal(block(x), block(x))
    attention = block.attention
    attention.dropout.p = 0.0
    assert not torch.equal(attention(x), attention(x))
    assert torch.equal(block.eval()(x), block(x))


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_without_bias_has_none(kind):
    block = block_of(kind, "gelu", bias=False, device="meta")
    assert all(name.endswith("weight") for name, _ in block.named_parameters())
    assert {t.device.type for t in [*block.parameters(), *block.buffers()]} == {"meta"}


@pytest.mark.parametrize(
    ("d_model", "n_heads", "nearest"),
    [(768, 7, "6 or 8"), (768, 1000, "768"), (13, 2, "1 or 13"), (12, 5, "4 or 6")],
)
@pytest.mark.parametrize("make", [Attention, lambda d_model, n_heads: Block(d_model, n_heads, "relu")])
def test_heads_must_divide_the_width(make, d_model, n_heads, nearest):
    message = f"n_heads must divide d_model: got n_heads={n_heads}, d_model={d_model}; nearest: {nearest}."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make(d_model, n_heads)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((12, 0), {}, "n_heads must be a positive integer: got n_heads=0"),
        (("12", 3), {}, "d_model must be a positive integer: got d_model='12'"),
        ((12, 3, 1.0), {}, "dropout_prob must lie in [0, 1): got dropout_prob=1.0"),
        ((12, 3), {"kind": "flash"}, 'kind must be "sdpa" or "explicit": got kind=\'flash\''),
        ((12, 3), {"kind": "explicit"}, 'kind="explicit" needs context_length, the side of its mask: got None'),
        ((12, 3), {"kind": "explicit", "context_length": 0}, "context_length must be a positive integer"),
    ],
)
def test_attention_refuses_what_cannot_be(arguments, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Attention(*arguments, **options)
    with pytest.raises(ValueError, match=re.escape(message)):
        Block(*arguments[:2], "relu", *arguments[2:], **options)


def test_attention_refuses_an_input_that_does_not_fit():
    with pytest.raises(ValueError, match="x may have context_length=9 positions at most: got 10"):
        Attention(12, 3, **KINDS["explicit"])(torch.ones(1, 10, 12))
    with pytest.raises(ValueError, match=re.escape("x must be x[b, s, d]: got 2 dimensions, (9, 12)")):
        Attention(12, 3)(torch.ones(9, 12))


@pytest.mark.parametrize(("act_fn", "saved_bytes"), [("relu", 201_523_216), ("gelu", 268_632_080)])
def test_a_block_keeps_what_article_a_published(act_fn, saved_bytes):
    with SimulatedGPU("a100-80gb") as gpu:
        block = Block(1024, 2, act_fn).to(gpu.device, torch.bfloat16)
        x = torch.empty(2, 4096, 1024, device=gpu.device, dtype=torch.bfloat16, requires_grad=True)
        with AllocatedMemContext() as mem, SavedTensorContext(block.parameters()) as saved:
            y = block(x)
        assert saved.saved_tensor_mem == saved_bytes
        # The GPU counts y, which is not kept, where autograd counts x, which was there before; and with 2 heads the
        # memory-efficient kernel has its seed and offset on the CPU.
        assert y.nbytes == x.nbytes
        assert mem.delta["current"] == saved_bytes - 16


def run_with_our_block(case, card, monkeypatch):
    """Run a case of tests/reference/cases.py with the book's Block in the place of its own."""

    def ours(d, heads, activation, kind="sdpa", bias=True, dropout=0.0, context=None):
        return Block(d, heads, activation, dropout, kind=kind, context_length=context, bias=bias)

    monkeypatch.setattr(module_of("cases"), "Block", ours)
    return run_case(case, card)


@pytest.mark.parametrize("card", ["a100", "h100"])
@pytest.mark.parametrize(
    "name", ["block_relu", "block_gelu", "block8_relu", "block8_gelu", "gpt2_tiny_fp32", "gpt2_tiny_pure_bf16"]
)
def test_a_block_runs_as_the_recorded_one(name, card, monkeypatch):
    environment, recorded = run_with_our_block(cases("cases")[name], card, monkeypatch), load(name, card)
    assert environment.marks == recorded["marks"]
    simulated = up_to_last_mark(environment.gpu.trace.sequence())
    assert simulated == Trace.from_recording(recorded).sequence()


@pytest.mark.parametrize("settings", [{}, {"dropout": 0.1}, {"bias": True}], ids=str)
@pytest.mark.parametrize("attention", KINDS)
def test_a_block_runs_as_that_of_the_recorded_cases(attention, settings, monkeypatch):
    module = module_of("cases")
    config = module.Config(**module.SIZES["tiny"] | {"attention": attention, "layers": 1} | settings)

    def case(env):
        module.train(env, config, steps=1)

    case.cudnn_sdp = False
    theirs = run_case(case, "a100")
    ours = run_with_our_block(case, "a100", monkeypatch)
    assert ours.marks == theirs.marks
    assert ours.gpu.trace.sequence() == theirs.gpu.trace.sequence()

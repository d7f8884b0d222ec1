"""The layers have the shapes, parameters and messages that the chapters rely on."""

import pytest
import torch
from activation_variants import OTHERS, variants
from torch import nn

from utils.layers import MLP, LinearStack, make_activation


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
    stack = LinearStack(3, 4, 2, 5, frozen=range(1, 3))
    assert [layer.weight.requires_grad for layer in stack.hidden] == [True, False, False, True, True]
    assert all(p.requires_grad for p in [*stack.first.parameters(), *stack.last.parameters()])
    assert LinearStack(3, 4, 2, 0)(torch.randn(1, 3)).shape == (1, 2)


def test_linear_stack_refuses_what_cannot_be():
    with pytest.raises(ValueError, match=r"frozen must lie within range\(0, 3\), the hidden layers: got range\(2, 5\)"):
        LinearStack(n_hidden=3, frozen=range(2, 5))
    with pytest.raises(ValueError, match="width must be a positive integer: got width=0"):
        LinearStack(width=0)
    with pytest.raises(ValueError, match="n_hidden must be a positive integer: got n_hidden=-1"):
        LinearStack(n_hidden=-1)

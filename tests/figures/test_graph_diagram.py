"""The autograd graphs as diagrams: what their boxes say is what autograd keeps, and changes with the letters."""

import re
from itertools import pairwise

import pytest
import torch
from diagrams import words
from torch import nn

from every_byte.units import short
from utils import LinearStack, SavedTensorContext
from utils.figures.graph_diagram import TRAINED, chain_graph, product_graph, two_layers


def test_a_product_says_the_bytes_of_each_tensor():
    shown = words(product_graph(b=8, d=4, d_out=16))
    assert {"x: 8 × 4", "128 B", "W: 4 × 16", "256 B", "y: 8 × 16", "512 B"} < set(shown)
    assert words(product_graph(b=16, d=4, d_out=16, e=2)) != shown
    gradients = ("W̄ = xᵀ ȳ", "reads x"), ("x̄ = ȳ Wᵀ", "reads W")
    assert all(shown[shown.index(gradient) + 1] == reads for gradient, reads in gradients)


@pytest.mark.parametrize("case", TRAINED)
@pytest.mark.parametrize(("b", "d"), [(8, 4), (32, 16)])
def test_the_filled_boxes_are_what_autograd_keeps(case, b, d):
    x, w1, w2 = torch.empty(b, d), *(torch.empty(d, d, requires_grad=trained) for trained in TRAINED[case])
    with SavedTensorContext([w1, w2]) as saved:
        h = x @ w1
        g = nn.functional.gelu(h)
        y = g @ w2
    kept = {row.storage for row in saved.rows(y)} if y.requires_grad else set()
    shown = words(two_layers(b=b, d=d))
    own = shown[shown.index(case) :][:9]
    assert f"kept {short(len(kept) * b * d * 4)}" in own
    for name, tensor in (("x", x), ("h", h), ("g", g)):
        is_kept = tensor.untyped_storage()._cdata in kept
        assert (f"{name}  {short(b * d * 4)}" if is_kept else f"{name}  gone") in own


def stack_and_rows(**sizes):
    stack = LinearStack(**sizes)
    with SavedTensorContext(stack.parameters()) as saved:
        loss = stack(torch.empty(5, sizes["n_in"])).sum()
    return loss, saved.rows(loss)


def test_a_chain_is_drawn_as_it_is_read():
    diagram = chain_graph(*stack_and_rows(n_in=3, width=4, n_out=2, n_hidden=1, relu=True))
    shown = words(diagram)
    assert [text for text in shown if " B" in text] == ["5 × 3, 60 B", "5 × 4, 80 B", "5 × 4, 80 B"]
    assert [text for text in shown if text in ("mat1", "self", "result = mat1")] == ["mat1", "self", "result = mat1"]
    assert shown.count("backward") == 6  # the column, and five operations
    assert "result = mat1 5 × 4, 80 B, for activation: Relu and last: Addmm" in diagram.alt
    wider = words(chain_graph(*stack_and_rows(n_in=6, width=8, n_out=2, n_hidden=1, relu=True)))
    assert [text for text in wider if " B" in text] == ["5 × 6, 120 B", "5 × 8, 160 B", "5 × 8, 160 B"]


def test_without_a_relu_each_layer_has_a_box_of_its_own():
    shown = words(chain_graph(*stack_and_rows(n_in=3, width=4, n_out=2, n_hidden=2)))
    assert [text for text in shown if " B" in text] == ["5 × 3, 60 B", *["5 × 4, 80 B"] * 3]


def graph_of(function, *inputs):
    with SavedTensorContext() as saved:
        y = function(*inputs)
    return y, saved.rows(y)


def matrix():
    return torch.ones(3, 3, requires_grad=True)


def test_what_an_operation_reads_twice_is_said_once():
    diagram = chain_graph(*graph_of(lambda x: x * x, matrix()))
    assert diagram.alt.endswith("Kept in between: other = self 3 × 3, 36 B, for Mul.")
    assert diagram.svg().count("<polyline") == 2
    squared = chain_graph(*graph_of(lambda x: x.exp().square() * 1, matrix()))
    assert "for Exp and Pow" in squared.alt


def squared_sine(x):
    h = x.sin()
    return h * h


def normed(x):
    return nn.functional.layer_norm(x.exp(), (3,), torch.ones(3, requires_grad=True)).sin()


@pytest.mark.parametrize(
    ("output", "n_kept"),
    [
        (lambda x: x @ matrix(), 2),
        (lambda x: ((x @ matrix()) @ matrix()) @ matrix(), 6),
        (squared_sine, 2),
        (normed, 5),
    ],
)
def test_no_box_lies_on_another(output, n_kept):
    diagram = chain_graph(*graph_of(output, matrix()))
    tops = sorted(float(y) for y in re.findall(r'class="eb-d-fill-green" x="142" y="([\d.]+)"', diagram.svg()))
    assert len(tops) == n_kept
    assert all(below - above >= 42 for above, below in pairwise(tops))
    assert tops[-1] + 42 <= diagram.height


def sum_of_two(x):
    h = x.exp()
    return h.sin() + h.cos()


def product_with_its_input(x):
    h = x.exp()
    return h * h.sin()


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (sum_of_two, "Cos comes behind Sin and reads Exp"),
        (product_with_its_input, "Mul comes behind Sin and reads Exp and Sin"),
        (lambda x: x.sin() + x.cos(), "Cos comes behind Sin and reads none of the others"),
    ],
)
def test_a_graph_that_is_no_chain_is_refused(output, said):
    rule = "output must come of a chain, each operation reading the one before and no other: "
    with pytest.raises(ValueError, match=f"{rule}{said}; draw a part of it."):
        chain_graph(*graph_of(output, matrix()))

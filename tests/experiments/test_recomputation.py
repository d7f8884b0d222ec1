"""The small experiments of checkpointing, against counts by hand, PyTorch's own policies and real gradients."""

import ast
import inspect

import nbformat
import pytest
import torch
from places import CHAPTERS
from torch import nn

from every_byte.remedies.policies import MATMULS, Plan, keeping
from utils.experiments.block_stack import Stack
from utils.experiments.recomputation import (
    eager,
    equal,
    gradients,
    held_by_a_block,
    kept_names,
    let_go_by_compiler,
    peak_in_units,
    prices,
    sines,
)
from utils.models.checkpointing import Minimal

SMALL = Stack(b=1, s=64, d=64, a=4, L=1)


@pytest.mark.parametrize("n", [1, 6, 16])
def test_sines_by_hand(n):
    """All kept: n tensors, and a cosine and a product; in segments their inputs, and what one of them brings back."""
    assert peak_in_units(sines(n)) == n + 2
    for k in (k for k in range(1, n + 1) if n % k == 0):
        assert peak_in_units(sines(n, k)) == k + n // k + 1


def test_sines_hold_their_segments_inputs():
    for k in (1, 2, 8):
        trace = sines(8, k, unit_bytes=4096)
        assert trace.requested_bytes(trace.position("forward")) // 4096 == k
        assert peak_in_units(trace, 4096) == k + 8 // k + 1
    assert trace.requested_bytes(trace.position("backward")) // 4096 == 2, "x, and its gradient"


def test_sines_are_checked():
    with pytest.raises(ValueError, match="segments must divide n: got segments=3, n=16"):
        sines(16, 3)
    with pytest.raises(ValueError, match="n must be a positive integer"):
        sines(0)


def test_what_a_block_holds_as_the_allocator_and_as_hooks_say():
    region = SMALL.region()
    assert held_by_a_block(SMALL, eager) == (region.saved_bytes, region.saved_bytes)
    assert held_by_a_block(SMALL) == (0, 0)
    plan = Plan.keeping(region, MATMULS)
    assert held_by_a_block(SMALL, context_fn=keeping(MATMULS)) == (plan.kept_bytes, 0)


def test_prices_are_the_inner_dimension_and_twice_the_length():
    rows = {line.split("  ")[0]: line.split() for line in prices(Stack(s=256, d=512, a=8, L=1).region()).splitlines()}
    assert [rows[f"addmm {n}"][-1] for n in (1, 2, 3)] == ["512"] * 3
    assert rows["addmm 4"][-3:] == ["not", "run", "again"]
    exact = 4 * 2 * 256**2 * 512 / (2 * 2 * 256 * 512 + 4 * 8 * 2 * 256 + 24)
    assert rows["flash_attention 1"][-1] == f"{exact:,.0f}"
    assert exact < 2 * 256
    assert rows["gelu 1"][-1] == "0"
    assert not any(name.startswith(("view", "add 2", "t ")) for name in rows)


def test_names_of_what_a_plan_keeps():
    region = SMALL.region()
    assert kept_names(Plan.keeping(region, MATMULS)) == "addmm 1, addmm 2, addmm 3, addmm 4"
    assert kept_names(Plan(region, frozenset())) == "nothing"


@pytest.mark.nightly
def test_which_goes_first_depends_on_length_and_width():
    short, long = (let_go_by_compiler(Stack(b=1, s=s, d=512, a=8, L=1), (0.5, 0.3, 0.0)) for s in (64, 2048))
    attention = "_scaled_dot_product_flash_attention 1"
    assert short[attention] == 0.5 > short["addmm 1"] >= short["addmm 3"]
    assert long[attention] == 0.0 < long["addmm 3"] <= long["addmm 1"]
    assert short["gelu 1"] == long["gelu 1"] == 0.5


def test_the_chapter_shows_the_books_own_class():
    """The one class that the chapter teaches stands in it in full; here it is held to the module's."""
    path = CHAPTERS / "05_checkpointing.ipynb"
    cell = next(cell for cell in nbformat.read(path, as_version=4).cells if cell.id == "minimal")
    statements = (*ast.parse(cell.source).body, *ast.parse(inspect.getsource(Minimal)).body)
    shown, own = (statement for statement in statements if isinstance(statement, ast.ClassDef))
    del own.body[0]  # the docstring
    assert ast.unparse(_Untyped().visit(shown)) == ast.unparse(_Untyped().visit(own))


class _Untyped(ast.NodeTransformer):
    """Takes away annotations, which a chapter leaves out."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        return ast.copy_location(ast.Assign([node.target], node.value, lineno=node.lineno), node)


# ---- gradients on real tensors


def linear():
    torch.manual_seed(0)
    return nn.Linear(16, 3, dtype=torch.float64)


def test_output_input_and_parameters():
    layer = linear()
    y, of_x, of_weight, of_bias = gradients(layer, eager)
    assert (y.shape, of_x.shape) == ((2, 8, 3), (2, 8, 16))
    torch.testing.assert_close(of_bias, 2 * y.sum((0, 1)))  # of a sum of squares
    torch.testing.assert_close(of_x, 2 * y @ layer.weight.detach())
    assert of_weight is layer.weight.grad


def test_they_do_not_add_up_and_arguments_are_passed_on():
    layer = linear()
    assert equal(gradients(layer, eager), gradients(layer, lambda module, x, by: module(x) * by, by=1.0))
    assert not equal(gradients(layer, eager), gradients(layer, lambda module, x, by: module(x) * by, 2.0))


def test_the_same_random_numbers_each_time():
    drop = nn.Dropout(0.5)
    assert equal(gradients(drop, eager), gradients(drop, eager))
    assert not equal(gradients(drop, eager), gradients(drop, eager, seed=2))
    assert len(gradients(torch.sin, eager)) == 2


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([torch.ones(2), None], [torch.ones(2), None], True),
        ([torch.ones(2)], [torch.ones(2) + 1e-7], False),
        ([torch.ones(2)], [None], False),
        ([None], [torch.ones(2)], False),
    ],
)
def test_equal(one, other, same):
    assert equal(one, other) == same


def test_equal_needs_as_many():
    with pytest.raises(ValueError, match="shorter"):
        equal([torch.ones(2)], [])

"""The curve of memory budgets is what compiled blocks hold, and what their graphs repeat."""

import pytest

from utils.experiments.block_stack import Stack, compiled
from utils.experiments.budget_curve import budget_table, compiled_block, without_flops
from utils.experiments.recomputation import eager, held_by_a_block
from utils.experiments.speed_memory import simulate

STACK = Stack(b=1, s=16, d=32, a=2, L=1)


@pytest.fixture(scope="module")
def found():
    return [compiled_block(STACK, budget) for budget in (1.0, 0.6, 0.0)]


@pytest.mark.nightly
def test_bytes_and_flops_are_those_of_a_run(found):
    plain_bytes, _ = held_by_a_block(STACK, eager)
    assert found[0].held_bytes == plain_bytes
    assert (found[-1].held_bytes, found[0].flops, found[0].run_again) == (0, 0, ())
    for one in found:
        point = simulate(STACK, compiled(one.budget), technique="compile", name="")
        assert point.recompute_flops == one.flops


@pytest.mark.nightly
def test_attention_s_result_is_weighed_twice(found):
    result_bytes = STACK.b * STACK.s * STACK.d * 2
    assert found[0].weighed_bytes == found[0].held_bytes + result_bytes
    assert found[1].weighed_bytes <= 0.6 * found[0].weighed_bytes


@pytest.mark.long
def test_the_table(found):
    head, *rows = budget_table(found).split("\n")
    assert head.split("  ")[0] == "budget"
    assert [row.split()[0] for row in rows] == ["1", "0.6", "0"]
    assert "gelu 1" in rows[1]
    assert "gelu 1" not in rows[2]
    assert rows[0].split()[-2:] == ["100%", "0.0"]


@pytest.mark.long
def test_the_least_without_a_product(found):
    assert without_flops(found) is min((one for one in found if not one.flops), key=lambda one: one.held_bytes)
    assert without_flops(found[:1]) is found[0]
    with pytest.raises(ValueError, match="one of these must compute no FLOPs again: got 0 that do; add a larger"):
        without_flops([])

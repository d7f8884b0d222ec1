"""The diagram of a plain and a selective checkpoint says what plans of the recorded block hold and run again."""

import pytest
import torch
from diagrams import words

from every_byte.remedies.policies import COMPUTE_INTENSIVE, MATMULS, Plan
from every_byte.units import short
from utils.experiments.block_stack import Stack
from utils.figures.selective_diagram import plain_and_selective

KEPT = 'class="eb-d-fill-green"'


@pytest.fixture(scope="module")
def region():
    return Stack(b=1, s=64, d=64, a=2, L=1).region()


@pytest.mark.parametrize("operators", [MATMULS, COMPUTE_INTENSIVE, (torch.ops.aten.gelu,)])
def test_it_says_what_plans_hold_and_run_again(region, operators):
    said = words(plain_and_selective(region, operators))
    plans = Plan(region, frozenset()), Plan.keeping(region, operators)
    assert [line for line in said if line.startswith("held")] == [
        f"held besides x: {short(plan.kept_bytes)}" for plan in plans
    ]
    again = [f"runs again: {plan.flops / 10**9:.1f} GFLOP" for plan in plans]
    assert [line for line in said if line.startswith("runs again:")] == again


def test_boxes_of_matmuls(region):
    svg = plain_and_selective(region, MATMULS).svg()
    assert svg.count(KEPT) == 2 + 4 + 1, "x twice, four products, the legend"
    assert svg.count("stroke-dasharray") == 2 + 1 + 1, "down and the last sum; the last sum; the legend"


def test_in_words(region):
    assert plain_and_selective(region, MATMULS).alt == (
        "The operations of a transformer block in two columns. plain checkpoint: kept none; run again norm1, qkv, "
        "attention, out, +, norm2, up, GELU; not needed again down, +; held besides x: 0 B; runs again: 0.0 GFLOP. "
        "selective checkpoint: kept qkv, out, up, down; run again norm1, attention, +, norm2, GELU; not needed again "
        "+; held besides x: 72 KiB; runs again: 0.0 GFLOP."
    )


def test_operations_without_a_name_of_the_block_have_pytorchs():
    squared = Stack(b=1, s=64, d=64, a=2, L=1, act_fn="relu").region()
    assert "relu 1" in words(plain_and_selective(squared, MATMULS))

"""What a Llama's step computes and moves: from two blocks as from all, and as counted by hand."""

from dataclasses import replace

import pytest

from utils.experiments.gpt_remedy_step import GPTRemedyStep
from utils.experiments.llama_step import LlamaStep
from utils.experiments.remedy_costs import cost, flops, of_blocks

GIVEN = LlamaStep(model="llama-3-8b", gpu="rtx3090-24gb")
ONE = LlamaStep(model="llama-3.2-1b", s=64, gpu="a100-80gb")
LAYERS, V, D, F = 16, 128_256, 2048, 8192


@pytest.mark.long
def test_flops_are_those_of_the_products():
    step = replace(ONE, s=128)
    in_blocks = LAYERS * (2 * D * D + 2 * D * D // 4 + 3 * D * F)
    products = 6 * step.s * (in_blocks + V * D)
    attention = LAYERS * 32 * step.s**2 * 64 * 2 * (2 + 5)  # two products forward, five backward
    assert flops(step) == products + attention
    again = flops(replace(step, is_checkpointed=True)) - flops(step)
    without_down = 2 * step.s * (in_blocks - LAYERS * D * F)  # a checkpoint stops when it has all it needs
    assert again == without_down + LAYERS * 32 * step.s**2 * 64 * 4
    assert flops(replace(step, loss="chunks, fused")) == flops(step)
    assert flops(replace(step, loss="chunks, recomputed")) - flops(step) == 2 * step.s * V * D
    assert flops(replace(step, micro_batches=3)) == 3 * flops(step)


@pytest.mark.long
@pytest.mark.parametrize("changed", [{"is_checkpointed": True}, {"loss": "chunks, fused", "rank": 8}])
def test_two_blocks_tell_what_all_compute(changed):
    step = replace(GIVEN, s=64, offload="activations", **changed)
    found, (n_flops, moved_bytes) = cost(step), of_blocks(step, 32)
    assert (found.flops, found.moved_bytes) == (n_flops, moved_bytes)


def test_what_a_fused_chunk_computes_is_what_the_whole_loss_does():
    assert cost(replace(GIVEN, loss="chunks, fused")) == cost(GIVEN)


def test_what_runs_again_costs_its_forward_but_for_what_nothing_keeps_the_result_of():
    T, d = GIVEN.b * GIVEN.s, 4096
    given, head, down = cost(GIVEN).flops, 2 * T * d * 128_256, 2 * T * 14_336 * d
    assert cost(replace(GIVEN, loss="chunks, recomputed")).flops - given == head
    weights, attention = 218_103_808, 2 * 2 * GIVEN.s * T * d  # the scores, and their products with v: no causal half
    again = 32 * (2 * T * weights + attention - down)  # PyTorch's checkpoint stops when all that is kept is there
    assert cost(replace(GIVEN, is_checkpointed=True)).flops - given == again


def test_a_gpts_blocks_under_autocast_move_its_half_types():
    step = GPTRemedyStep(s=64, precision="autocast", offload="activations")
    assert cost(step).flops == of_blocks(step, 12)[0]
    assert cost(step).moved_bytes == of_blocks(step, 12)[1]
    assert cost(step).moved_bytes < cost(replace(step, precision="float32")).moved_bytes

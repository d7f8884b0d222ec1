"""The peaks of a step by phases and places, and what a loss takes: held to the ledger, and to counts by hand."""

from dataclasses import replace

import pytest

from every_byte.ledger.ledger import Ledger
from utils.experiments.llama_step import LlamaStep
from utils.experiments.remedies import (
    PLACES,
    highest_by_place,
    kept_by_a_block,
    of_the_loss,
    peaks,
    run_of,
    state_of,
    table,
)

ONE = LlamaStep(model="llama-3.2-1b", s=64, gpu="a100-80gb")
N = 1_235_814_400
LAYERS, V, D, F = 16, 128_256, 2048, 8192


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({}, "backward, embedding"),
        ({"s": 4096}, "backward, loss"),
        ({"optimizer": "AdamW, foreach"}, "optimizer"),
        ({"s": 2048, "rank": 4, "is_checkpointed": True, "loss": "chunks, recomputed"}, "backward, loss"),
    ],
)
def test_the_peak_and_its_place_are_those_of_the_ledger(changes, where):
    step = replace(ONE, **changes)
    run, found = run_of(step), peaks(step)
    assert found.where == where
    assert found.peak_bytes == max(found.by_phase.values()) == sum(found.parts.values())
    totals, marks = run.trace.totals(after=run.after, until=run.until)
    assert found.peak_bytes == max(totals)
    assert found.held_bytes == totals[marks["step 2 forward"]]
    first, last = marks["step 2 backward"], marks["step 2 optimizer"]
    assert found.by_phase["optimizer"] == max(totals[first + 1 : last + 1], default=totals[last])


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({}, "end of backward"),
        ({"optimizer": "AdamW, foreach"}, "optimizer step"),
        ({"s": 4096, "is_checkpointed": True}, "loss"),
    ],
)
def test_the_highest_of_the_four_places_is_the_peak(changes, place):
    step = replace(ONE, **changes)
    trace = run_of(step).trace
    at = highest_by_place(step)
    assert tuple(at) == PLACES
    bytes_at = {name: Ledger.at(trace, position).requested_bytes for name, position in at.items()}
    assert max(bytes_at, key=bytes_at.get) == place
    assert bytes_at[place] == peaks(step).peak_bytes
    in_order = [at[name] for name in PLACES]
    assert in_order == sorted(in_order)
    assert trace.events[at["block"] - 1].module.startswith("blocks.")
    assert trace.events[at["end of backward"] - 1].module == "tokens"


@pytest.mark.long
def test_micro_batches_are_one_step():
    step = replace(ONE, micro_batches=2)
    found = peaks(step)
    assert found.held_bytes == Ledger.at(run_of(step).trace, "step 2 micro 2 forward").requested_bytes
    assert found.held_bytes - peaks(ONE).held_bytes == 2 * N  # the gradients so far


def test_the_state_is_eight_bytes_a_parameter_in_bfloat16():
    assert state_of(ONE) == {"parameters": 2 * N, "gradients": 2 * N, "optimizer state": 4 * N + 4 * 146}


def test_float32_masters_are_twenty_bytes_a_parameter_in_the_step():
    found = peaks(replace(ONE, precision="float32 masters"))
    assert found.where == "optimizer"
    assert {name: n for name, n in found.parts.items() if n > N} == {
        "parameters": 6 * N,
        "gradients": 6 * N,
        "optimizer state": 8 * N + 4 * 146,
    }


def test_a_block_keeps_what_the_closed_form_says():
    d_kv = D // 4
    assert kept_by_a_block(replace(ONE, s=128)) - 24 / 128 == 2 * (6 * D + 2 * d_kv + 4 * F) + 4 * 32 + 8


def test_a_table_has_a_line_for_each():
    said = table({"one": ONE, "another": replace(ONE, optimizer="SGD")}).splitlines()
    assert [line.split()[0] for line in said] == ["GiB", "one", "another"]
    assert said[0].split()[1:] == ["forward", "backward", "optimizer", "peak", "where"]
    assert said[1].endswith("backward, embedding")


def test_what_a_loss_takes_is_counted_in_logits():
    T, v, d = 8192, 128_256, 4096
    whole, half = of_the_loss("all logits"), of_the_loss("all logits, bfloat16")
    assert (whole.forward_bytes, whole.held_bytes, whole.backward_bytes) == tuple(n * T * v + 8 for n in (10, 4, 12))
    assert (half.forward_bytes, half.held_bytes, half.backward_bytes) == tuple(n * T * v + 4 for n in (4, 2, 6))
    named = of_the_loss("all logits", keeps_logits=True)
    assert (named.held_bytes, named.backward_bytes) == (6 * T * v + 8, 14 * T * v + 8)
    assert of_the_loss("chunks, fused").held_bytes == 2 * (T * d + v * d) + 4

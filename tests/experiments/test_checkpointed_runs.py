"""A GPT's steps with regions checkpointed: as recorded, as the closed forms say, and where they fit."""

import pytest
import torch

from every_byte.remedies.operations import FlopCounter
from utils import SimulatedGPU
from utils.experiments.checkpointed_runs import (
    AUTOCAST,
    added_by_a_block,
    in_regions,
    largest_batch,
    step_flops,
    trains,
)
from utils.experiments.gpt_article import gpt_steps
from utils.formulas.block import block_saved
from utils.formulas.gpt import GPTSettings, held_after_forward, held_in_loss, peak
from utils.models.gpt import letters
from utils.recordings import recorded

SMALL = {"b": 3, "s": 128, "n_layers": 2}
SIZES = {**letters("gpt2"), "b": 3, "s": 128, "L": 2}


def test_every_block_as_recorded():
    marks = {mark["name"]: mark["requested"] for mark in recorded("gpt2_small_checkpoint")["marks"]}
    assert in_regions("every block").held_bytes == marks["step 2 forward"]


@pytest.mark.parametrize("kind", ["sdpa", "explicit"])
def test_without_regions_as_the_closed_forms_say(kind):
    run = in_regions("none", kind=kind, **SMALL)
    settings = GPTSettings("autocast", "flash" if kind == "sdpa" else "explicit")
    assert run.held_bytes == sum(run.parts.values()) == held_after_forward(settings).bytes(**SIZES)
    assert run.peak_bytes == peak(settings, **SIZES)[1]
    assert run.peak_in == "tokens embedding_dense_backward", "a small batch"


def test_a_peak_in_the_loss():
    run = in_regions("none", b=8, s=512, n_layers=1)
    sizes = SIZES | {"b": 8, "s": 512, "L": 1}
    assert run.peak_bytes == held_in_loss(GPTSettings("autocast", "flash")).bytes(**sizes)
    assert run.peak_in == "nll_loss_backward"


def test_a_peak_in_a_region():
    run = in_regions("k segments", 1, kind="explicit", b=1, s=512, n_layers=2, vocabulary_size=64)
    assert run.peak_in == "blocks.1.attention _softmax_backward_data"


def test_micro_batches():
    run = in_regions("none", micro_batches=2, **SMALL)
    settings = GPTSettings("autocast", "flash", holds_gradients=True, divides_loss=True)
    assert run.held_bytes == held_after_forward(settings).bytes(**SIZES)
    assert "gradients" in run.parts
    assert "gradients" not in in_regions("none", **SMALL).parts


def test_a_layers_bytes():
    sizes = {"b": 2, "s": 96}
    flash = block_saved(attention="flash", activation="gelu")
    assert added_by_a_block("none", **sizes, dtype=torch.bfloat16) == flash.bytes(**sizes, d=768, a=12, e=2)
    autocast = block_saved(attention="flash", activation="gelu", autocast=True)
    with_copies = autocast.bytes(**sizes, d=768, a=12, e=2) + 2 * 12 * 768**2
    assert added_by_a_block("none", **sizes, settings=AUTOCAST) == with_copies
    assert added_by_a_block("every block", **sizes, settings=AUTOCAST) == 4 * 2 * 96 * 768


def test_flops_by_hand():
    """Forward and twice as much in backward, attention's backward five products for two; then all but the last."""
    s, d, V = 64, 768, 50304
    products = 12 * 24 * s * d**2 + 2 * s * d * V
    attention = 12 * 4 * s**2 * d
    assert step_flops("none", s=s) == 3 * products + attention + attention * 5 // 2
    assert step_flops("every block", s=s) - step_flops("none", s=s) == 12 * (16 * s * d**2 + 4 * s**2 * d)


def test_flops_of_a_model_in_full():
    with SimulatedGPU("a100-80gb") as gpu, FlopCounter() as counter:
        gpt_steps(gpu, b=1, s=64, kind="sdpa", settings=AUTOCAST, n_steps=1)
    assert step_flops("none", s=64) == counter.total
    with pytest.raises(ValueError, match="regions must be one of none; every block; attention only, the same in each"):
        step_flops("k segments")


@pytest.mark.parametrize(("b", "fits"), [(200, True), (400, False)])
def test_what_trains(b, fits):
    assert trains("t4-16gb", "every block", b=b, s=64, n_layers=1, vocabulary_size=50304) == fits


@pytest.mark.nightly
def test_the_largest_batch():
    how = {"s": 512, "n_layers": 1, "vocabulary_size": 50304}
    largest = largest_batch("t4-16gb", "every block", most=64, **how)
    fits = [trains("t4-16gb", "every block", b=b, **how) for b in (largest, largest + 1)]
    assert fits == [True, False]
    with pytest.raises(ValueError, match="most must be more than what fits: got most=3, and it fits; try most=6"):
        largest_batch("t4-16gb", "every block", most=3, **how)
    assert largest_batch("t4-16gb", "none", most=3, s=512, name="gpt2-xl") == 0


def test_regions_are_checked():
    with pytest.raises(ValueError, match="regions must be one of"):
        in_regions("some")

"""The runs of nanoGPT's chapter: as recorded, at their peak, and with gradients that persist."""

import pytest
import torch
from reference_files import load

from utils import GPT, Ledger, SimulatedGPU
from utils.experiments.gpt_article import (
    WAYS,
    activations_of,
    gpt_steps,
    gradient_bytes,
    requested_at_peak,
    step_peak,
)
from utils.experiments.training import StepSettings
from utils.formulas.gpt import GPTSettings, held_in_loss
from utils.models.gpt import letters

FOUR_N = 4 * 124_373_760
PERSIST = [(1, 0), (1, 1), (1, 1), (2, 1), (1, 1)]  # times 4N, in the order of WAYS


def test_the_run_of_the_article_as_recorded():
    marks = {mark["name"]: mark for mark in load("gpt2_small_explicit_fp16_scaler", "a100")["marks"]}
    with SimulatedGPU("a100-80gb") as gpu:
        run = gpt_steps(gpu)
    for row in run:
        mark = marks[f"step {row.iteration} {row.phase}" if row.iteration else row.phase]
        assert (row.requested_bytes, row.allocated_bytes) == (mark["requested"], mark["allocated"])
    assert step_peak(gpu.trace).allocated_bytes == marks["step 2 backward"]["peak"]
    assert step_peak(gpu.trace, 1).allocated_bytes == marks["step 1 backward"]["peak"]


def test_the_peak_of_micro_batches():
    with SimulatedGPU("a100-80gb") as gpu:
        gpt_steps(gpu, b=1, s=64, n_layers=1, settings=StepSettings(micro_batches=2))
    assert step_peak(gpu.trace).allocated_bytes == max(
        event.allocated_bytes
        for event in gpu.trace.between("step 1 zero_grad", "step 2 zero_grad")
        if event.allocated_bytes is not None
    )
    with pytest.raises(ValueError, match="mark must be one of this trace's: got 'step 6"):
        step_peak(gpu.trace, 7)


def test_requested_at_peak():
    settings = StepSettings(autocast=torch.bfloat16)
    sizes = {**letters("gpt2"), "b": 8, "s": 256}
    found = requested_at_peak("a100-80gb", b=8, s=256, kind="sdpa", settings=settings, vocabulary_size=100_000)
    assert found == held_in_loss(GPTSettings("autocast", "flash")).bytes(**(sizes | {"V": 100_000}))


@pytest.mark.parametrize("precision", ["float32", "autocast", "bfloat16"])
@pytest.mark.parametrize("kind", ["explicit", "sdpa"])
def test_activations_are_what_forward_adds(precision, kind):
    attention = {"explicit": "explicit", "sdpa": "efficient" if precision == "float32" else "flash"}[kind]
    half = torch.bfloat16 if precision == "autocast" else None
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    with SimulatedGPU("a100-80gb") as gpu:
        settings = StepSettings(autocast=half, keep_outputs=False)
        run = gpt_steps(gpu, b=3, s=96, n_layers=2, kind=kind, dtype=dtype, settings=settings)
    added = run[2, "forward"].requested_bytes - run[2, "batch"].requested_bytes
    sizes = {**letters("gpt2"), "b": 3, "s": 96, "L": 2}
    assert activations_of(GPTSettings(precision, attention)).bytes(**sizes) == added


@pytest.mark.long
@pytest.mark.parametrize(("way", "expected"), list(zip(WAYS, PERSIST, strict=True)))
def test_gradients_that_persist(way, expected):
    assert gradient_bytes(way) == tuple(n * FOUR_N for n in expected)


def test_an_unknown_way():
    with pytest.raises(ValueError, match="way must be one of set_to_none=True.*: got way='FSDP'"):
        gradient_bytes("FSDP")


def test_wrapping_and_looking():
    seen = []
    with SimulatedGPU("a100-80gb") as gpu:
        gpt_steps(
            gpu, b=1, s=8, n_layers=1, n_steps=1, at_mark=seen.append, wrap=lambda model: seen.append(model) or model
        )
        assert isinstance(seen.pop(0), GPT)
    assert seen[:2] == ["model", "step 1 batch"]
    assert Ledger.at(gpu.trace, "step 1 forward").parts["buffers"] == 4 * 8 * 8

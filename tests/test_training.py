"""Training steps in named phases: those of a GPT against the recorded ones, and what each setting does."""

from dataclasses import dataclass

import pytest
import torch
from reference_files import load
from running import run_case, up_to_last_mark

from utils import GPT, SimulatedGPU, Trace
from utils.training import StepSettings, random_tokens, train_steps

SIZES = {
    "tiny": {"V": 1000, "s": 64, "b": 4, "d": 128, "L": 2, "a": 4},
    "small": {"V": 50304, "s": 1024, "b": 12, "d": 768, "L": 12, "a": 12},
    "medium": {"V": 50304, "s": 1024, "b": 4, "d": 1024, "L": 24, "a": 16},
    "large": {"V": 50304, "s": 1024, "b": 4, "d": 1280, "L": 36, "a": 20},
}
BF16, HALF = {"dtype": torch.bfloat16}, {"autocast": torch.bfloat16}
EXPLICIT, DROPOUT, FP16 = {"kind": "explicit"}, {"dropout_prob": 0.1}, {"autocast": torch.float16}
FP16 |= {"keep_outputs": False, "set_to_none": False}
VARIANTS = {  # of the recorded cases: settings of the model, settings of the step
    "fp32": ({}, {}),
    "pure_bf16": (BF16, {}),
    "accumulate4_fp32": ({}, {"micro_batches": 4}),
    "accumulate4_pure_bf16": (BF16, {"micro_batches": 4}),
    "foreach_fp32": ({}, {"optimizer": "foreach"}),
    "foreach_pure_bf16": (BF16, {"optimizer": "foreach"}),
    "explicit_dropout_fp32": (EXPLICIT | DROPOUT | {"bias": True}, {"keep_outputs": False}),
    "explicit_dropout_pure_bf16": (EXPLICIT | DROPOUT | {"bias": True} | BF16, {"keep_outputs": False}),
    "flash_bf16": ({}, HALF),
    "cudnn_bf16": ({}, HALF),
    "foreach": ({}, HALF | {"optimizer": "foreach"}),
    "loop": ({}, HALF | {"optimizer": "loop"}),
    "dropout": (DROPOUT, HALF),
    "explicit_dropout": (EXPLICIT | DROPOUT, HALF),
    "bias": ({"bias": True}, HALF),
    "accumulate4": ({}, HALF | {"micro_batches": 4}),
    "explicit_fp16": (EXPLICIT, FP16),
    "explicit_fp16_scaler": (EXPLICIT, FP16 | {"scaler": True}),
}
LARGER = ["explicit_fp16", "explicit_fp16_scaler", "flash_bf16", "accumulate4", "accumulate4_pure_bf16"]
CASES = [("tiny", variant, card) for variant in VARIANTS for card in ("a100", "h100")]
CASES.remove(("tiny", "cudnn_bf16", "a100"))  # cuDNN's attention wants a later GPU
CASES += [("small", variant, "a100") for variant in LARGER]
CASES += [(size, variant, "a100") for size in ("medium", "large") for variant in ("explicit_fp16", "flash_bf16")]


def gpt_steps(gpu, size="tiny", *, model=None, n_steps=3, at_mark=None, **settings):
    z = SIZES[size]
    return train_steps(
        gpu,
        lambda: GPT(z["V"], z["s"], z["d"], z["L"], z["a"], device=gpu.device, **model or {}),
        lambda: random_tokens(gpu, b=z["b"], s=z["s"], V=z["V"]),
        StepSettings(**settings),
        n_steps=n_steps,
        at_mark=at_mark,
    )


@dataclass
class Case:
    """A recorded case as this book's own modules run it."""

    size: str
    variant: str
    readings = None

    @property
    def cudnn_sdp(self) -> bool:
        return self.variant.startswith("cudnn")

    def __call__(self, env):
        model, settings = VARIANTS[self.variant]
        self.readings = gpt_steps(env.gpu, self.size, model=model, **settings)


@pytest.mark.parametrize(("size", "variant", "card"), CASES)
def test_a_gpt_trains_as_the_recorded_one(size, variant, card):
    if "autocast" in VARIANTS[variant][1] and not hasattr(SimulatedGPU, "autocast"):
        pytest.skip("no autocast yet")
    case, recorded = Case(size, variant), load(f"gpt2_{size}_{variant}", card)
    trace = run_case(case, card).gpu.trace
    for row, mark in zip(case.readings, recorded["marks"], strict=True):
        found = row.requested_bytes, row.allocated_bytes, row.reserved_bytes, row.peak_bytes
        assert found == tuple(mark[name] for name in ("requested", "allocated", "reserved", "peak")), mark["name"]
    assert list(case.readings.figures) == [mark["name"] for mark in recorded["marks"]]
    if "events" in recorded:
        assert up_to_last_mark(trace.sequence()) == Trace.from_recording(recorded).sequence()

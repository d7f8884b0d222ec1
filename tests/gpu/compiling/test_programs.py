"""Compiled programs take on a simulated GPU what they take over PyTorch's CUDA build, at every mark."""

import sys

import compiled
import pytest
import torch

from utils import SimulatedGPU

GPUS = {"a100": "a100-80gb", "h100": "h100-80gb", "t4": "t4-16gb"}
WHOLE = ("a100", "h100")  # on which every program is recorded
ALL = [(card, *program) for card in GPUS for program in compiled.recorded(card)]
BY_DAY = {
    "mlp_gelu", "gpt_bf16_clipped", "resnet", "bert_padded", "checkpoint", "lengths_that_change", "compiled_optimizer",
    "graph_breaks", "flex_with_a_bias", "flash",
}  # fmt: skip
HOLD_A_CONSTANT = {"flex", "flex_with_a_bias"}
"""Graphs that hold a number on the GPU where the compiler finds them in its cache, and not where it makes them."""

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Triton has wheels for Linux alone"),
    pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the compiler is known in PyTorch 2.13"),
    pytest.mark.filterwarnings("ignore"),  # the compiler's own, of which there are many
]


def mark(card: str, subject: str, name: str):
    by_day = card == "a100" and name in BY_DAY
    return pytest.param(
        card, (subject, name), marks=pytest.mark.long if by_day else pytest.mark.nightly, id=f"{card}-{name}"
    )


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """A compiler that has compiled nothing yet, and whose cache is empty."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize(("card", "program"), [mark(*one) for one in ALL])
def test_it_takes_what_was_recorded(fresh, card, program):
    subject, name = program
    for _ in range(2 if name in HOLD_A_CONSTANT else 1):
        torch._dynamo.reset()
        with SimulatedGPU(GPUS[card], cuda=True) as gpu:
            found = compiled.ran(compiled.programs(subject)[name])
    assert "torch.compile" in gpu.operations - gpu.unmodelled
    assert found == compiled.recorded(card)[program]["warm"]


def test_every_program_is_recorded():
    programs = {(subject, name) for subject in compiled.SUBJECTS for name in compiled.programs(subject)}
    assert all(set(compiled.recorded(card)) == programs for card in WHOLE)
    assert all(set(compiled.recorded(card)) <= programs for card in GPUS)

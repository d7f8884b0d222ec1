"""Compiled programs take on a simulated GPU what they take over PyTorch's CUDA build, at every mark."""

import sys

import pytest
import torch
from marked import COMPILED

GPUS = {"a100": "a100-80gb", "h100": "h100-80gb", "t4": "t4-16gb"}
WHOLE = ("a100", "h100")  # on which every program is recorded
ALL = [(card, *program) for card in GPUS for program in COMPILED.recorded(card)]
BY_DAY = {
    "mlp_gelu", "gpt_bf16_clipped", "resnet", "bert_padded", "checkpoint", "lengths_that_change", "compiled_optimizer",
    "graph_breaks", "flex_with_a_bias", "flash",
}  # fmt: skip
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
    found, gpu = COMPILED.simulated(*program, GPUS[card])
    assert "torch.compile" in gpu.operations - gpu.unmodelled
    assert found == COMPILED.recorded(card)[program]["warm"]


def test_every_program_is_recorded():
    assert all(set(COMPILED.recorded(card)) == COMPILED.all for card in WHOLE)
    assert all(set(COMPILED.recorded(card)) <= COMPILED.all for card in GPUS)

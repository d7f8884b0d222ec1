"""What recordings hold is looked up by operator, type, architecture and version; nothing unrecorded is called held."""

import json
from dataclasses import replace

import pytest
import torch

from every_byte.gpu.evidence import ELSEWHERE, FILE, HELD, UNRECORDED, Evidence, recorded, recorded_libraries, text_of
from every_byte.gpu.memory.specs import GPUSpec, find_spec
from every_byte.gpu.memory.versions import VERSIONS
from utils import SimulatedGPU

A100 = find_spec("a100-80gb")
IMAGINARY = GPUSpec("imaginary", "Imaginary 1", (13, 7), 2**36, 100)


def trained(spec) -> Evidence:
    """The evidence for a training step of a small MLP."""
    with SimulatedGPU(spec) as gpu:
        model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)).to(gpu.device)
        optimizer = torch.optim.AdamW(model.parameters())
        with gpu.autocast(torch.bfloat16):
            loss = model(torch.randn(32, 64, device=gpu.device)).sum()
        loss.backward()
        optimizer.step()
        return gpu.evidence


def test_a_training_step_on_a_recorded_card_is_held():
    found = trained("a100-80gb")
    assert found.level == HELD
    assert found.architecture == "8.0"
    assert {"aten::linear 16-bit", "aten::mm 16-bit", "aten::gelu 16-bit"} <= set(found.held)


@pytest.mark.filterwarnings("ignore:PyTorch 2.13 from PyPI does not run on")
@pytest.mark.parametrize("capability", [(13, 7), (8, 7)])
def test_nothing_is_held_on_an_invented_card(capability):
    found = trained(replace(IMAGINARY, capability=capability))
    assert found.level == ELSEWHERE
    assert not found.held
    assert ("2.13", "8.0") in found.elsewhere["aten::mm 16-bit"]
    assert found.architecture not in {architecture for _, architecture in found.recorded_on}


@pytest.mark.filterwarnings("ignore:PyTorch .* runs here, and a simulated GPU follows the rules")
def test_nothing_is_held_by_an_invented_version():
    found = trained(replace(A100, rules=replace(A100.rules, torch_version="9.9")))
    assert found.level == ELSEWHERE
    assert not found.held
    assert found.elsewhere["aten::mm 16-bit"] == tuple((version, "8.0") for version in ("2.11", "2.13", "2.14", "2.15"))


@pytest.mark.filterwarnings("ignore:PyTorch .* runs here, and a simulated GPU follows the rules")
@pytest.mark.parametrize("version", [name for name, rules in VERSIONS.items() if not rules.is_verified])
def test_nothing_is_held_by_a_version_that_was_not_recorded(version):
    assert not trained(replace(A100, rules=VERSIONS[version])).held


def test_an_operator_without_a_recording_is_named(monkeypatch):
    without = {name: places for name, places in recorded().items() if name != "aten::gelu 16-bit"}
    monkeypatch.setattr("every_byte.gpu.evidence.recorded", lambda: without)
    found = trained("a100-80gb")
    assert found.level == UNRECORDED
    assert found.unrecorded == ("aten::gelu 16-bit",)


def test_a_type_that_was_not_recorded_is_not_held_by_another():
    """Rules that hold in float32 have been wrong in complex numbers: of a type that may matter each is asked for."""
    places = {"aten::bmm float32": frozenset({("2.13", "8.0")})}
    names = ["aten::bmm float32", "aten::bmm complex"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("every_byte.gpu.evidence.recorded", lambda: places)
        found = Evidence.of(names, A100)
    assert (found.held, found.unrecorded) == (("aten::bmm float32",), ("aten::bmm complex",))


def test_types_are_told_apart():
    """Also of operators that allocate their outputs alone: some make a copy of another type first."""
    with SimulatedGPU("a100-80gb") as gpu:
        for dtype in (torch.float32, torch.float64, torch.complex64, torch.float16, torch.bfloat16):
            x = torch.zeros(3, 4, 5, dtype=dtype, device=gpu.device)
            torch.bmm(x, x.mT)
            x + x
    ran = set(gpu.trace.notes.operators)
    assert {f"aten::bmm {kind}" for kind in ("float32", "float64", "complex", "16-bit")} <= ran
    assert {f"aten::add.Tensor {kind}" for kind in ("float32", "float64", "complex", "16-bit")} <= ran


def test_a_composite_is_noted_as_well_as_its_parts():
    """Which parts there are may depend on the architecture: each kernel of attention is one."""
    with SimulatedGPU("a100-80gb") as gpu:
        q = torch.zeros(2, 4, 64, 32, dtype=torch.bfloat16, device=gpu.device)
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
    ran = set(gpu.trace.notes.operators)
    assert "aten::scaled_dot_product_attention 16-bit" in ran
    assert "aten::_scaled_dot_product_flash_attention 16-bit" in ran


def test_views_need_no_recording(gpu):
    """They allocate nothing on any device: that is in their schema."""
    x = torch.zeros(1, 3, 4, device=gpu.device)
    x.squeeze(0).transpose(0, 1).unsqueeze(-1)[:2]
    assert set(gpu.trace.notes.operators) == {"aten::zeros"}


def test_what_a_card_runs_and_this_refuses_is_noted(gpu):
    x = torch.randn(8, device=gpu.device)
    with pytest.raises(RuntimeError, match="shape of a result"):
        x.long().bincount()
    ((place, _),) = gpu.trace.notes.refused.items()
    assert place.startswith("aten::bincount at ")
    assert "test_evidence.py:" in place


def test_the_file_is_as_the_tool_writes_it():
    assert FILE.read_text(encoding="utf-8") == text_of(recorded(), recorded_libraries())


def test_places_are_those_of_versions_and_architectures_that_exist():
    for where in json.loads(FILE.read_text(encoding="utf-8"))["operators"]:
        for place in where.split(", "):
            version, _, architecture = place.partition(" on ")
            assert VERSIONS[version].is_verified
            assert architecture in {"7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0"}

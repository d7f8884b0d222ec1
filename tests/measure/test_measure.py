"""`every-byte measure`: its suite on simulated GPUs, what it says and writes, and files of cards that were sent in."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from places import ROOT

from every_byte import SimulatedGPU
from every_byte.gpu.live.machine import Machine
from every_byte.gpu.memory.specs import SPECS, GPUSpec
from every_byte.gpu.memory.versions import rules_of
from every_byte.measure import measure
from every_byte.measure.comparing import COUNTERS, differences, readings
from every_byte.measure.suite import NOT_FOLLOWED, PROGRAMS

FILES = sorted((ROOT / "tests" / "reference" / "cards").glob("*.json"))
READING = dict.fromkeys(COUNTERS, 512)
BY_ADDRESSES = {"reserved": 2_097_152, "peak_reserved": 2_097_152}
KNOWN = {("h200", "gpt_with_checkpoints"): {"step 2": BY_ADDRESSES, "zero_grad 2": BY_ADDRESSES}}
"""What a card counted beyond its simulation: one segment more, as where its driver puts segments elsewhere."""


def row(**off: int) -> dict:
    measured = {name: n + off.get(name, 0) for name, n in READING.items()}
    return {"name": "forward 1", "measured": measured, "simulated": READING}


def result(name: str, *rows: dict, error: str | None = None) -> dict:
    return {"name": name, "rows": list(rows), "seconds": 1.0, "error": error}


def found(*programs: dict) -> dict:
    said = {"device_name": "NVIDIA A100", "torch": "2.13.0", "driver": None, "origin": "measured", "rules": "2.13"}
    return said | {"context": None, "programs": list(programs)}


# ---------------------------------------------------------------------------------------------------- cards sent in


def _spec(path: Path) -> GPUSpec:
    """The card as its file says it is: not as the book knows it."""
    held = json.loads(path.read_text(encoding="utf-8"))
    spec = next(spec for spec in SPECS.values() if spec.device_name == held["device_name"])
    facts = {"capability": tuple(held["capability"]), "rules": rules_of(held["rules"])}
    return replace(spec, total_bytes=held["total_bytes"], multiprocessors=held["multiprocessors"], **facts)


def _programs(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"))["programs"]


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.filterwarnings("ignore:PyTorch .* runs here, and a simulated GPU follows the rules")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in NOT_FOLLOWED])
def test_a_simulation_gives_what_was_read_on_the_card(path, name):
    program = next((one for one in _programs(path) if one["name"] == name), {"rows": []})  # a part may be sent in
    with SimulatedGPU(_spec(path)) as gpu:
        simulated = dict(readings(name, gpu))
    assert {row["name"] for row in program["rows"]} in (simulated.keys(), set())
    now = [row | {"simulated": simulated[row["name"]]} for row in program["rows"]]
    off = {row["name"]: differences(row) for row in now if differences(row)}
    assert off == KNOWN.get((path.stem, name), {})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_says_whether_a_card_computed_and_names_nobody(path):
    held = json.loads(path.read_text(encoding="utf-8"))
    assert held["format"] == measure.FORMAT
    assert (held["origin"] == measure.MEASURED) == (held["driver"] is not None)
    assert held.keys() == {
        *("format", "every_byte", "torch", "cuda", "driver", "device_name", "capability", "total_bytes"),
        *("multiprocessors", "rules", "origin", "context", "programs"),
    }
    assert {one["name"] for one in held["programs"]} <= PROGRAMS.keys()
    assert "/" not in path.read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------------ what is said


def test_readings_that_agree_and_readings_that_do_not():
    assert differences(row()) == {}
    assert differences(row(peak_allocated=512)) == {"peak_allocated": 512}
    assert measure.summary(result("blocks", row(), row(allocated=-1024, n_allocations=9))) == [
        *("blocks", "2", "1", "1,024", "")
    ]


def test_what_is_not_followed_says_why_and_does_not_fail():
    given = found(result("blocks", row()), result("convolutions", row(peak_allocated=8 << 20)))
    assert measure.agrees(given)
    assert "cuDNN asks for workspaces" in measure.text(given)
    assert "1 of 1 readings agree in all 7 counters." in measure.text(given)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (result("blocks", row(reserved=2 << 20)), "blocks, forward 1: reserved +2,097,152"),
        (result("blocks", error="RuntimeError"), "did not run: RuntimeError"),
    ],
    ids=["a difference", "an error"],
)
def test_a_difference_and_an_error_fail(program, said):
    given = found(program, result("encoder", row()))
    assert not measure.agrees(given)
    assert said in measure.text(given)


def test_of_an_error_the_kind_is_kept_and_nothing_else(monkeypatch):
    def ends(gpu):
        raise OSError("mine/secret.py is not there")

    monkeypatch.setitem(PROGRAMS, "blocks", ends)
    monkeypatch.setattr("every_byte.measure.comparing.LiveGPU", lambda traced: SimulatedGPU("t4-16gb"))
    assert measure.run_here("blocks") == {"error": "OSError"}


def test_a_context_that_was_not_measured_fails_and_one_that_was_says_whose_it_is():
    given = found(result("blocks", row()))
    lost = given | {"context": {"error": "RuntimeError"}}
    assert not measure.agrees(lost)
    assert "CUDA context: not measured, RuntimeError" in measure.text(lost)
    sizes = {"of": "this process", "sizes_bytes": {"after the first tensor": 560 << 20}}
    assert "of this process:\n  560 MiB after the first tensor" in measure.text(given | {"context": sizes})


def test_names_are_those_of_the_suite():
    assert measure.chosen([]) == [measure.CONTEXT, *PROGRAMS]
    assert measure.chosen(["gpt_*", "context"]) == [
        *("context", "gpt_under_autocast", "gpt_in_half_precision", "gpt_with_checkpoints", "gpt_with_accumulation")
    ]
    with pytest.raises(ValueError, match="must be those of the suite, with .*: got 'gtp'"):
        measure.chosen(["gtp"])


def test_without_a_gpu_it_says_why(monkeypatch, capsys):
    monkeypatch.setattr(measure, "this_machine", lambda: Machine(reason="PyTorch sees no GPU on this machine."))
    assert measure.main([]) == 2
    assert "needs an NVIDIA GPU. PyTorch sees no GPU on this machine. Without one: every-byte run." in (
        capsys.readouterr().err
    )
    assert measure.main(["--list"]) == 0
    assert "gpt_with_checkpoints" in capsys.readouterr().out


@pytest.fixture
def _card(monkeypatch):
    """A machine with a card, on which each program gives one reading that agrees."""
    monkeypatch.setattr(measure, "this_machine", lambda: Machine("NVIDIA A100"))
    monkeypatch.setattr(measure, "description", lambda: {k: v for k, v in found().items() if k != "programs"})
    monkeypatch.setattr(measure, "run", lambda name: result(name, row()))


@pytest.mark.usefixtures("_card")
def test_what_is_printed_and_what_is_written(tmp_path, capsys):
    assert measure.main(["gpt_*", "--out", str(tmp_path / "mine.json")]) == 0
    assert "4 of 4 readings agree in all 7 counters." in capsys.readouterr().out
    assert len(json.loads((tmp_path / "mine.json").read_text())["programs"]) == 4


@pytest.mark.usefixtures("_card")
@pytest.mark.parametrize("words", [["--out", "no/such/folder.json"], ["gtp"]], ids=["no folder", "no program"])
def test_what_cannot_be_done_is_said_before_anything_runs(words, capsys):
    with pytest.raises(SystemExit) as ended:
        measure.main(words)
    assert ended.value.code == 2
    assert "no/such/folder.json" in (err := capsys.readouterr().err) or "got 'gtp'" in err

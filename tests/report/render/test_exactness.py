"""How far figures can be trusted is derived, and said alike as text, page and JSON."""

from dataclasses import replace

import pytest
import torch
from reported import mlp, reported

from every_byte.gpu.evidence import recorded
from every_byte.gpu.memory.specs import GPUSpec, find_spec
from every_byte.report.note import Note
from every_byte.report.render.exactness import operators

IMAGINARY = GPUSpec("imaginary", "Imaginary 1", (13, 7), 2**36, 100)


def in_lines(report) -> str:
    return " ".join(repr(report).split())


def everywhere(report, sentence: str) -> None:
    """The text, the notebook and the page say it."""
    assert sentence in in_lines(report)
    assert sentence in " ".join(report.html().split())
    assert sentence in report._repr_html_()


def test_what_is_held_is_to_the_byte():
    report = reported(mlp, 2)
    assert report.is_exact
    n = len(report.evidence)
    everywhere(report, f"recordings of that build on compute capability 8.0 hold all {n:,d} operators that ran.")
    assert "Simulated, to the byte by the rules of PyTorch 2.13" in in_lines(report)
    assert report.to_json()["level"] == "held"
    assert report.to_json()["evidence"]["n_held"] == n


@pytest.mark.filterwarnings("ignore:PyTorch 2.13 from PyPI does not run on")
@pytest.mark.parametrize(("capability", "level"), [((13, 7), "unrecorded"), ((8, 7), "elsewhere")])
def test_an_invented_card_is_not_to_the_byte(capability, level):
    """For the first one PyTorch has no kernels either, for the second one those of 8.0."""
    report = reported(mlp, 2, gpu=replace(IMAGINARY, capability=capability))
    assert not report.is_exact
    assert "to the byte" not in in_lines(report)
    n, here = len(report.evidence), "compute capability {}.{}".format(*capability)
    everywhere(report, f"None of the {n:,d} operators that ran is recorded on {here}: recordings on 7.5")
    assert report.to_json()["level"] == level
    assert report.to_json()["evidence"]["n_held"] == 0


@pytest.mark.filterwarnings("ignore:PyTorch .* runs here, and a simulated GPU follows the rules")
def test_an_invented_version_is_not_to_the_byte():
    spec = find_spec("a100-80gb")
    report = reported(mlp, 2, gpu=replace(spec, rules=replace(spec.rules, torch_version="9.9")))
    assert not report.is_exact
    assert "to the byte" not in in_lines(report)
    assert "of PyTorch 2.11 on 8.0; of PyTorch 2.13 on 8.0" in in_lines(report)


def test_an_operator_without_a_recording_is_named(monkeypatch):
    without = {name: places for name, places in recorded().items() if name != "aten::gelu float32"}
    monkeypatch.setattr("every_byte.gpu.evidence.recorded", lambda: without)
    report = reported(mlp, 2)
    assert not report.is_exact
    assert "to the byte" not in in_lines(report)
    everywhere(report, "1 is held by no recording: gelu (float32).")
    assert report.to_json()["evidence"]["unrecorded"] == ["aten::gelu float32"]


def test_what_ended_by_an_error_is_exact_up_to_there():
    report = reported(mlp, 2, exit_code=1, ended="ValueError: no")
    assert not report.is_exact
    assert report.to_json()["level"] == "unrecorded"
    assert "Simulated, to the byte up to the error by the rules" in in_lines(report)
    everywhere(report, "The program ended by an error: what it would have allocated after that is in no figure")


def test_what_was_refused_is_named_also_where_the_program_went_on():
    def program(gpu):
        steps = mlp(gpu, 2)
        try:
            torch.randn(8, device=gpu.device).relu().long().bincount()
        except RuntimeError:
            pass
        return steps

    report = reported(program)
    assert not report.is_exact
    assert "to the byte" not in in_lines(report)
    (place,) = report.to_json()["refused"]
    everywhere(report, f"refused here: {place}")


@pytest.mark.filterwarnings("ignore:nothing is computed")
def test_values_that_were_only_read_leave_a_condition():
    def program(gpu):
        steps = mlp(gpu, 2)
        print(float(torch.randn(3, device=gpu.device).sum()))
        return steps

    report = reported(program)
    assert not report.is_exact
    assert "for a program whose allocations do not depend on the values named above: recordings" in in_lines(report)
    assert report.to_json()["level"] == "held"
    assert len(report.to_json()["values_read"]) == 1


def test_a_note_that_is_not_of_figures_leaves_them_exact():
    kept = Note("a file was kept", "it was there before", is_of_figures=False)
    assert reported(mlp, 2, notes=[kept]).is_exact
    assert not reported(mlp, 2, notes=[replace(kept, is_of_figures=True)]).is_exact


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["aten::gelu"], "gelu"),
        (["aten::sum float32", "aten::t"], "sum (float32) and t"),
        (["aten::a", "aten::b", "aten::c", "aten::d", "aten::e", "mine::f"], "a, b, c, d and 2 more"),
    ],
)
def test_operators_are_listed_as_a_reader_would(names, said):
    assert operators(names) == said

"""A report's figures, equal to what the GPU and the ledger say; its text, short and in the right words."""

import json
import re
from html import unescape
from types import SimpleNamespace

import pytest
import torch
from reported import COMMAND, mlp, of_a_gpt, of_an_mlp, of_nothing, out_of_memory, reported

from every_byte.gpu.memory.specs import find_spec
from every_byte.ledger.ledger import Ledger
from every_byte.ledger.notes import Notes
from every_byte.ledger.trace import Trace
from every_byte.report.note import Note
from every_byte.report.notes import notes_of
from every_byte.report.render import gpus
from every_byte.report.render.figures import SCHEMA
from every_byte.report.render.text import WIDTH
from every_byte.report.render.verdict import STARTS
from every_byte.report.report import Report
from every_byte.report.steps import Step
from every_byte.units import exact, in_gib
from utils import SimulatedGPU

REPORTS = [of_an_mlp, of_a_gpt, out_of_memory, of_nothing]
TRAINED = [of_an_mlp, of_a_gpt]


# ---- figures


@pytest.mark.parametrize("report", TRAINED)
def test_the_peak_is_the_ledgers_and_the_gpus(report):
    report = report()
    assert report.peak.parts == Ledger.at_peak(report.trace).parts
    assert report.peak.allocated_bytes == max(step.max_allocated_bytes for step in report.steps)
    assert report.peak_reserved_bytes == max(step.max_reserved_bytes for step in report.steps)
    first = next(step for step in report.steps if step.max_allocated_bytes == report.peak.allocated_bytes)
    assert report.peak_place.step == first.number
    assert first.begin < report.peak_position <= first.end


def test_it_is_of_what_had_happened_when_it_was_made():
    with SimulatedGPU("a100-80gb") as gpu:
        steps = mlp(gpu, 2)
        report = Report.of(gpu, steps=steps)
        large = torch.empty(2**30, device=gpu.device)
    assert report.peak.allocated_bytes == max(step.max_allocated_bytes for step in steps)
    assert report.allocated_at_end_bytes < large.nbytes < gpu.max_memory_allocated()


def test_a_program_may_reset_peaks_and_empty_the_cache():
    def program(gpu):
        large = torch.empty(2**28, device=gpu.device)
        del large
        gpu.empty_cache()
        gpu.reset_peak_memory_stats()
        return mlp(gpu, 2)

    report = reported(program)
    assert report.peak.allocated_bytes == report.peak_reserved_bytes == 2**30
    assert report.peak_place.phase == ""


def test_json_has_all_that_runs_are_compared_by():
    report = of_a_gpt()
    found = json.loads(json.dumps(report.to_json()))
    assert found["schema"] == SCHEMA
    assert (found["origin"], found["gpu"], found["torch_version"]) == ("simulated", "a100-80gb", "2.13")
    assert found["command"] == list(COMMAND)
    assert [step["max_reserved_bytes"] for step in found["steps"]] == [s.max_reserved_bytes for s in report.steps]
    names = {"number", "allocated_bytes", "max_allocated_bytes", "reserved_bytes", "max_reserved_bytes"}
    assert all(set(step) == names for step in found["steps"])
    peak = found["peak"]
    assert sum(peak["by_category"].values()) == peak["allocated_bytes"] == report.peak.allocated_bytes
    assert (peak["reserved_bytes"], peak["step"]) == (report.peak_reserved_bytes, report.peak_place.step)
    assert (found["unmodelled"], found["values_read"], found["exit_code"]) == ([], [], 0)
    assert (found["out_of_memory"], found["room_bytes"]) == (None, find_spec("a100-80gb").allocator_bytes)
    assert found["allocated_at_end_bytes"] == report.allocated_at_end_bytes


def test_json_of_a_refusal():
    found = out_of_memory().to_json()
    assert found["exit_code"] == 1
    refusal = found["out_of_memory"]
    assert (refusal["phase"], refusal["operation"], refusal["step"]) == ("forward", "addmm", 0)
    assert refusal["asked_bytes"] == 60_000 * 8_000 * 4
    assert refusal["allocated_bytes"] == out_of_memory().peak.allocated_bytes


# ---- what is refused


def test_what_is_no_gpu_and_what_are_no_steps():
    with pytest.raises(TypeError, match=r"^gpu must be a simulated or a live GPU: got Trace\.$"):
        Report.of(Trace("simulated", "x"))
    with SimulatedGPU("a100-80gb") as gpu:
        pass
    steps = [Step(1, 0, 0, 0, 0, 0, 0), Step(2, 0, 5, 0, 0, 0, 0)]
    said = r"^steps must follow one another .* got step 2 from 0 to 5, after 0, and the trace has 0 events\.$"
    with pytest.raises(ValueError, match=said):
        Report.of(gpu, steps=steps)


# ---- text


@pytest.mark.parametrize("report", REPORTS)
def test_the_text_is_a_page_of_plain_lines(report):
    lines = repr(report()).splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= WIDTH
    assert all(line == line.rstrip() for line in lines)
    assert STARTS.match(lines[0])
    assert "$ every-byte run --steps 3 train.py" in lines


@pytest.mark.parametrize("report", TRAINED)
def test_the_text_says_first_whether_it_fits_then_where_the_peak_is(report):
    report = report()
    text = repr(report)
    needs = max(report.fits.own.needed_bytes, report.peak_reserved_bytes)
    assert text.startswith(f"Fits on a100-80gb: needs {in_gib(needs)} of {in_gib(report.room_bytes)} GiB.\n")
    assert f'title="{needs:,d} of {report.room_bytes:,d} bytes"' in report.html()
    phase = {"step": "optimizer"}.get(report.peak_place.phase, report.peak_place.phase)
    place = f"step {report.peak_place.step}, {phase}"
    assert f"peak allocated  {exact(report.peak.allocated_bytes)}, {place}" in " ".join(
        text.split("\n                  ")
    )
    assert f"At the peak, {place}:" in text
    for name, n_bytes in report.peak.parts.items():
        assert name == "slack" or re.search(rf"^{name} +[\d,]+ +{n_bytes:,d} ", text, re.MULTILINE)
    for step in report.steps:
        assert re.search(
            rf"^{step.number} +{step.allocated_bytes:,d} +{step.max_allocated_bytes:,d} ", text, re.MULTILINE
        )
    assert "Simulated, to the byte by the rules of PyTorch 2.13's CUDA build" in text


@pytest.mark.parametrize("report", REPORTS)
def test_what_is_simulated_is_never_called_measured(report):
    report = report()
    for text in (repr(report), report._repr_html_(), report.html()):
        assert "easured" not in text
        assert "imulated on" in text


def measured(fraction: float = 1.0) -> Report:
    """The report of a GPU that measures: a stand-in with the trace of a simulated one."""
    source = of_an_mlp()
    trace = Trace("measured", "A card", "2.13.0+cu130", list(source.trace.events), owners=source.trace.owners)
    spec = find_spec("a100-80gb")
    gpu = SimpleNamespace(
        spec=spec, look_around=lambda: trace, memory_allocated=lambda: 512, mem_get_info=lambda: (0, spec.total_bytes),
        get_per_process_memory_fraction=lambda: fraction,
    )  # fmt: skip
    return Report.of(gpu, steps=source.steps, ended="the script ended")


def test_what_is_measured_is_called_so():
    report = measured()
    assert report.origin == "measured"
    for text in (repr(report), report._repr_html_(), report.html()):
        assert "Measured on a100-80gb" in text
        assert "imulat" not in re.sub(r"<script>.*?</script>|<style>.*?</style>", "", text, flags=re.DOTALL)
    assert report.room_bytes == find_spec("a100-80gb").total_bytes  # nothing of it is assumed
    half = measured(0.5)
    assert half.room_bytes == report.room_bytes // 2
    assert "the fraction of 85,097,971,712 that the settings or the program allow" in " ".join(repr(half).split())
    reserved = f"{in_gib(report.peak_reserved_bytes)} of {in_gib(report.room_bytes)} GiB"
    assert repr(report).startswith(f"It ran on a100-80gb: PyTorch reserved {reserved}.\n")


def test_a_program_that_never_touched_the_gpu_is_told_so():
    text = repr(of_nothing())
    assert "Nothing was allocated on a100-80gb." in text
    assert "As a rule the program chose the CPU" in text
    assert of_nothing().to_json()["peak"]["allocated_bytes"] == 0
    assert "Nothing was allocated" in of_nothing()._repr_html_()


def test_out_of_memory_comes_first():
    report = out_of_memory()
    text = repr(report)
    assert "torch.OutOfMemoryError (exit code 1)." in text  # the verdict explains it
    first, *lines = text.splitlines()
    assert first == "Out of memory on t4-16gb: needs at least 14.4 GiB, has 14.0 GiB."
    assert "It ran out in forward, before the first step ended: addmm asked for 1.79 GiB in 5 Linear" in " ".join(lines)
    assert re.search(r"^  asked for +1,920,000,000 bytes", text, re.MULTILINE)
    assert "When memory ran out:\n" in text
    assert re.search(r"^activations +4 +7,680,000,000 ", text, re.MULTILINE)  # whose it was, though all of it is gone
    smallest = min((one for one in report.fits.verdicts if one.fits), key=lambda one: one.room_bytes)
    assert f"Gets at least that far on {smallest.gpu}* (" in text.replace("\n", " ")
    assert f"Does not fit on t4-16gb ({gpus.spare(report.fits.own)})" in text.replace("\n", " ")


def test_out_of_memory_after_steps_names_the_last():
    report = out_of_memory(2)
    assert "It ran out after step 2, forward: addmm asked for 1.79 GiB" in repr(report)


def test_the_first_request_may_be_the_one_that_is_refused():
    with SimulatedGPU("t4-16gb") as gpu:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(2**34, device=gpu.device)
    report = Report.of(gpu, exit_code=1, ended="torch.OutOfMemoryError: no")
    assert not report.is_empty
    assert report.ran_out
    said = " ".join(repr(report).split())
    assert said.startswith("Out of memory on t4-16gb: needs at least 64.0 GiB, has 14.0 GiB.")
    assert "It ran out outside forward and backward, before the first step ended: " in said
    assert "asked for 68,719,476,736 bytes" in said
    assert report.html().startswith("<!doctype html>")


def test_a_refusal_that_the_program_survived_is_no_end():
    def searching(gpu):
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(2**36, device=gpu.device)
        return mlp(gpu, 3)

    report = reported(searching)
    assert (report.shortage is not None, report.ran_out) == (True, False)
    assert repr(report).startswith("Fits on a100-80gb: needs ")
    assert "The program went on after it" in report.html()


def test_many_steps_are_shown_in_part():
    report = reported(mlp, 12)
    numbers = re.findall(r"^(\d+ {3}|…)", repr(report).split("Each step, bytes:")[1], re.MULTILINE)
    numbers = [number.strip() for number in numbers]
    assert numbers[:2] == ["1", "2"]
    assert numbers[-2:] == ["11", "12"]
    assert str(report.peak_place.step) in numbers
    assert "…" in numbers


# ---- what is not known


def test_notes_come_with_a_way_out():
    notes = [Note("torch.compile was used", "its kernels are not followed", "run without it")]

    def program(gpu):
        steps = mlp(gpu, 3)
        with pytest.warns(UserWarning, match="value"):
            float(torch.randn(3, device=gpu.device).sum())
        with pytest.warns(UserWarning, match="poisson is not modelled"):
            torch.poisson(torch.ones(7, device=gpu.device))
        return steps

    report = reported(program, notes=notes)
    assert report.notes[0] == notes[0]
    assert list(report.notes[1:]) == notes_of(report.trace)
    assert not report.is_exact
    text = " ".join(repr(report).split())
    assert "- torch.compile was used: its kernels are not followed; run without it." in text
    assert "aten::poisson is not modelled: " in text
    assert "values that are computed were read, as zeros, at " in text
    assert "and not exact: what is named above is not known" in text
    assert len(report.to_json()["values_read"]) == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("torch.compile", "a compiler fuses operations"),
        ("Triton kernel add (its scratch memory)", "scratch memory of Triton's kernel add is not known"),
        ("aten::poisson", "may add to peaks within it; `--gpu live` measures that"),
        ("torch.nn.init.orthogonal_", "torch.nn.init.orthogonal_ is not modelled"),
    ],
)
def test_what_is_not_modelled_is_told_by_its_kind(name, said):
    trace = Trace("simulated", "a100-80gb", notes=Notes(unmodelled={name: 0}))
    (note,) = notes_of(trace)
    assert said in str(note)


def test_all_words_of_a_notebook_are_escaped():
    report = reported(mlp, 1, ended="<b>bold</b>")
    assert "<b>" not in report._repr_html_()
    assert "&lt;b&gt;bold" in report._repr_html_()


def test_what_failed_before_its_first_step_has_no_verdict():
    text = " ".join(repr(reported(mlp, 0, exit_code=1, ended="ValueError: no")).split())
    assert "It ended on a100-80gb before its first step was done, with less than 0.1 of 78.7 GiB reserved." in text
    assert "Fits on a100-80gb:" not in text


@pytest.mark.parametrize("report", REPORTS)
def test_a_notebook_shows_what_the_text_says(report):
    """All that the text has, in sentences and tables, but for what it cuts."""
    found = report()
    page = " ".join(unescape(re.sub(r"<[^>]*>", " ", found._repr_html_())).split())
    cells = [cell for line in repr(found).splitlines() for cell in re.split(r"\s{2,}", line.strip()) if "…" not in cell]
    assert [cell for cell in cells if cell.rstrip(":") not in page] == []
    assert len(cells) > 3

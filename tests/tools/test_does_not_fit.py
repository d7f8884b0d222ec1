"""The programs of book/examples/does_not_fit die where cures.md says; with its cures they need what it says."""

import re
import runpy
import warnings
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from every_byte import Report, SimulatedGPU
from every_byte.gpu.memory.specs import find_spec
from every_byte.step.training import Training
from tools.example_runs import EXAMPLES

pytestmark = pytest.mark.sampled(4, slow=True)

FOLDER = EXAMPLES / "does_not_fit"
README, CURES = ((FOLDER / name).read_text(encoding="utf-8") for name in ("README.md", "cures.md"))
CARD = find_spec("rtx3090-24gb")
ROOMY = replace(CARD, total_bytes=1 << 40)
STEPS = {"restore": 13}  # of others three, as the command makes them
ROWS = dict(re.findall(r"^\| `(\w+)\.py` \| (.*) \|$", CURES, re.MULTILINE))
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
HEADING = re.compile(r"^## (\w+)\.py: ", re.MULTILINE)


def row(name: str) -> tuple[str, int, int]:
    """Where it ends, and the bytes at its peak, as it is and cured."""
    place, before, after = ROWS[name].split(" | ")
    return place.replace("`", ""), int(before.replace(",", "")), int(after.replace(",", ""))


def cured(name: str) -> str:
    """The program with the lines of its diff in the place of those that they replace."""
    _, *parts = HEADING.split(CURES)
    (diff,) = re.findall(r"```diff\n(.*?)```", dict(zip(parts[::2], parts[1::2], strict=True))[name], re.DOTALL)
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    for old, new in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", diff, re.MULTILINE):
        old, new = (re.sub(r"^.", "", lines, flags=re.MULTILINE) for lines in (old, new))
        assert text.count(old) == 1, f"{name}.py must have once: {old}"
        text = text.replace(old, new)
    return text


def ran(path: Path, spec, n_steps: int, settings: str = "") -> Report:
    """The report of a program, once it has made so many steps, has ended, or has run out of memory."""
    with SimulatedGPU(spec, cuda=True, settings=settings) as gpu, Training(gpu, n_steps) as training:
        with suppress(SystemExit, torch.OutOfMemoryError), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "values that are computed|nothing is computed|torch.load reads zeros")
            runpy.run_path(str(path), run_name="__main__")
        return Report.of(gpu, steps=training.steps())


@cache
def broken(name: str, spec=CARD) -> Report:
    return ran(FOLDER / f"{name}.py", spec, STEPS.get(name, 3))


def test_each_program_has_its_row_and_its_cure():
    assert (
        sorted(ROWS) == sorted(HEADING.findall(CURES)) == sorted(re.findall(r"^\| `(\w+)\.py`", README, re.M)) == NAMES
    )


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_it_runs_out_of_memory_where_the_table_says(name):
    report = broken(name)
    assert report.ran_out
    assert str(report.shortage.place) == row(name)[0]
    assert not report.trace.notes.unmodelled


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_it_needs_what_the_table_says(name):
    report = broken(name, ROOMY)
    assert not report.ran_out
    assert report.peak.allocated_bytes == row(name)[1]


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_its_cure_fits(name, tmp_path):
    path = tmp_path / f"{name}.py"
    path.write_text(cured(name), encoding="utf-8")
    report = ran(path, CARD, STEPS.get(name, 3))
    assert report.shortage is None
    assert report.growth is None
    assert report.peak.allocated_bytes == row(name)[2]


@pytest.mark.nightly
def test_what_the_cures_say_of_the_advice_in_a_report():
    """Expandable segments let the request pass that failed, and some more: blocks 36 to 39."""
    assert "three blocks later" in CURES
    report, advised = broken("resume"), ran(FOLDER / "resume.py", CARD, 3, "expandable_segments:True")
    assert "all that is free would be enough" in repr(report)
    assert advised.ran_out
    assert "all that is free would be enough" not in repr(advised)  # it was tried
    blocks = [re.search(r"blocks\.\d+", found.shortage.place.module)[0] for found in (report, advised)]
    assert blocks == ["blocks.36", "blocks.39"]


@pytest.mark.nightly
def test_the_report_of_three_steps_says_when_memory_will_run_out():
    report = ran(FOLDER / "restore.py", CARD, 3)
    assert not report.ran_out
    assert report.growth.runs_out_at_step == 13 == broken("restore").steps[-1].number + 1
    assert "at about step 13" in README

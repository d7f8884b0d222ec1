"""`every-byte verify`: which cases it runs, where their recordings lie, and what it says of those that part."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from places import REFERENCE, ROOT

from every_byte.__main__ import main as every_byte
from every_byte.gpu.cases.files import file_name, read, save
from every_byte.gpu.memory.versions import VERSIONS, rules_here
from every_byte.verify.recordings import BOOK, PACKED, Recordings, files_of_cases, pack, versions
from every_byte.verify.verify import Outcome, against, jobs, main, outcome, outcomes, report

SMALL = "two_by_two_matmul"


@pytest.fixture
def small():
    """A recorded case on an A100."""
    return next(one for one in jobs([SMALL]) if one.card == "a100")


def test_all_cases_are_recorded_with_the_books_version():
    recordings = Recordings(BOOK)
    assert all(one in recordings for one in jobs([]))
    assert len(jobs([])) > 1_000


def test_a_run_of_the_books_version_agrees(small):
    found = outcome(small, Recordings(BOOK)[small])
    assert (found.parts, found.bytes_off, found.left) == ("", 0, "")
    assert "aten::mm" in found.operations


def test_what_parts_is_named_with_its_bytes(small):
    recording = Recordings(BOOK)[small]
    without = [event for event in recording["events"] if event[:1] != ["alloc"] or event[2] != 8_519_680]
    marks = [mark | {"allocated": mark["allocated"] + 512} for mark in recording["marks"]]
    found = outcome(small, recording | {"events": without})
    assert found.parts.startswith("event ")
    assert "8519680" in found.parts
    found = outcome(small, recording | {"marks": marks})
    assert found.bytes_off == 512
    assert "allocated is" in found.parts
    text, is_whole = report([found], BOOK)
    assert not is_whole
    assert f"{SMALL}.a100: 512 bytes off at most; at " in text
    assert "Held by none: " in text


def test_it_says_where_the_recordings_are_of_another_version_than_runs(monkeypatch):
    assert "no recordings" not in report([], BOOK)[0]
    monkeypatch.setattr(torch, "__version__", "2.12.1+cpu")
    assert (
        f"Of PyTorch 2.12.1+cpu there are no recordings here: what agrees is as {BOOK} has it." in report([], BOOK)[0]
    )


@pytest.mark.nightly
def test_an_installed_package_takes_the_clone_in_which_it_is_called(tmp_path):
    """As behind `pip install .`: the package lies elsewhere, and so does nothing else of the clone."""
    shutil.copytree(ROOT / "every_byte", tmp_path / "every_byte", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-W", "ignore", "-m", "every_byte", "verify", SMALL, "--jobs", "1"]
    known = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=known, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert " agree in every figure and event, 0 do not." in ran.stdout
    elsewhere = subprocess.run(command, cwd=tmp_path, env=known, capture_output=True, text=True)
    assert elsewhere.returncode == 2
    assert "has no *cases.py; go into a clone." in elsewhere.stderr


def test_a_case_that_raises_parts_and_one_without_its_libraries_does_not(small, tmp_path):
    file = tmp_path / "wrong_cases.py"
    file.write_text(
        "def wrong(env): env.device.nothing\n"
        "def lacking(env): import a_library_that_nobody_has\n"
        "for case in (wrong, lacking): case.cards, case.cudnn_sdp = ('a100',), False\n"
        "CASES = {'wrong': wrong, 'lacking': lacking}\n"
    )
    wrong = outcome(replace(small, file=file, name="wrong"), {"marks": []})
    assert wrong.parts.startswith("it raised AttributeError: ")
    lacking = outcome(replace(small, file=file, name="lacking"), {"marks": []})
    assert (lacking.agrees, lacking.left) == (False, "No module named 'a_library_that_nobody_has'")
    text, is_whole = report([lacking], BOOK)
    assert is_whole
    assert "Not run, 1: No module named" in text


def test_a_packed_version_holds_what_differs_and_takes_the_rest_from_the_books(small, tmp_path):
    other = next(one for one in jobs(["three_tensors"]) if one.card == "a100")
    for one in (small, other):
        save(read(REFERENCE / BOOK / file_name(one.name, one.card)), tmp_path / BOOK / file_name(one.name, one.card))
    own = {"torch": "9.8.0", "marks": []}
    pack({small.key: own, other.key: None}, tmp_path / "9.8.0" / PACKED)
    found = Recordings("9.8.0", tmp_path)
    assert found[small] == own
    assert found[other] == Recordings(BOOK)[other]
    assert [found.differs(one) for one in (small, other)] == [True, False]
    assert versions(tmp_path) == {"2.13": "2.13.0", "9.8": "9.8.0"}
    missing = next(iter(jobs(["mlp_relu"])))
    assert missing not in found
    (said,) = outcomes([missing], found, 1)
    assert said.left == "not recorded with this version"


def test_it_compares_with_the_version_whose_rules_are_followed(monkeypatch):
    assert against() == versions()[rules_here().torch_version]
    assert against("2.13.1") == BOOK
    with pytest.raises(ValueError, match="--against must be a recorded version of PyTorch, .*2.13.*: got '2.1'"):
        against("2.1")
    monkeypatch.setattr(torch, "__version__", "3.0.0")
    assert against() == list(versions().values())[-1]


def test_every_recorded_version_has_rules():
    assert set(versions()) <= set(VERSIONS)


def test_the_command(capsys):
    assert every_byte(["verify", SMALL, "--jobs", "1", "--against", "2.13"]) == 0
    said = capsys.readouterr().out
    assert "2 runs, 2 agree in every figure and event, 0 do not." in said
    assert f"simulated under PyTorch {torch.__version__} by the rules of {rules_here().torch_version}" in said


def test_cards_that_a_case_does_not_name(capsys):
    assert (
        every_byte(["verify", "products_by_architecture", "--jobs", "1", "--against", "2.13", "--cards", "t4,l40s"])
        == 0
    )
    assert "2 runs, 2 agree in every figure and event, 0 do not." in capsys.readouterr().out


def test_what_is_refused(tmp_path, capsys):
    for words, said in (
        (["nothing_of_that_name"], "names must be those of cases"),
        (["--cards", "t4,v100"], "--cards must be cards of recordings, a100, h100, t4"),
        (["--against", "1.0"], "--against must be a recorded version"),
        (["--reference", str(tmp_path)], "recordings must be those of a clone"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(words)
        assert stopped.value.code == 2
        assert said in capsys.readouterr().err
    with pytest.raises(ValueError, match="recordings must be those of a clone"):
        files_of_cases(tmp_path)


def test_many_that_part_are_counted(small):
    text, _ = report([Outcome(small, "event 0 is a, and was b")] * 30, BOOK)
    assert "30 runs, 0 agree in every figure and event, 30 do not." in text
    assert "  and 5 more" in text

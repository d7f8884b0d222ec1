"""The command says what a snapshot tells, writes it as JSON, and ends with code 2 and a sentence where it cannot."""

import json
import os
import subprocess
import sys

import pytest
from places import ROOT
from recorded_snapshots import FOLDER, told

from every_byte.__main__ import main
from every_byte.cli.read import parser
from every_byte.snapshots.page import html_of
from every_byte.snapshots.text import text_of

LEAK = str(FOLDER / "leak.a100.pickle")


def of_the_leak():
    """What is told of it, by the name of its file."""
    it = told("leak")
    it.name = "leak.a100.pickle"
    return it


def test_it_prints_the_text(capsys):
    assert main(["read", LEAK]) == 0
    assert capsys.readouterr() == (text_of(of_the_leak()) + "\n", "")


def test_it_writes_json(tmp_path, capsys):
    path, it = tmp_path / "told.json", of_the_leak()
    assert main(["read", LEAK, "--json", str(path), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert json.loads(path.read_text(encoding="utf-8")) == json.loads(json.dumps(it.to_json()))


def test_it_writes_a_page(tmp_path, capsys):
    path, it = tmp_path / "told.html", of_the_leak()
    assert main(["read", LEAK, "--html", str(path), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert path.read_text(encoding="utf-8") == html_of(it)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required: SNAPSHOT"),
        ([LEAK, "--device", "2"], "the device must be one that the snapshot has something of: got 2, there are 0."),
        ([LEAK, "--device", "x"], "argument --device: must be a whole number, 0 or more: got 'x'"),
        ([LEAK, "--json", "/none/a.json"], "--json must be a file that can be written: got '/none/a.json'"),
        ([LEAK, "--html", "/none/a.html"], "--html must be a file that can be written: got '/none/a.html'"),
        ([LEAK, "--html", LEAK], "--html must be a file of its own: got"),
        ([LEAK, "--json", LEAK], "--json must be a file of its own: got"),
        ([LEAK, "--most-mib", "0"], "Allow more MiB: --most-mib 1024."),
        ([LEAK, "other.pickle"], "unrecognized arguments: other.pickle"),
        ([__file__], "is no snapshot that can be read: a snapshot must be a pickle of plain values"),
    ],
)
def test_what_is_not_understood(words, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["read", *words])
    assert ended.value.code == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert said in error


def test_a_full_disk_keeps_no_other_file_from_being_written(tmp_path, capsys):
    path = tmp_path / "told.json"
    with pytest.raises(SystemExit, match="2"):
        main(["read", LEAK, "--html", "/dev/full", "--json", str(path)])
    assert "--html must be a file that can be written: got '/dev/full', No space left" in capsys.readouterr().err
    assert json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.nightly
def test_a_reader_that_has_seen_enough():
    """As `head`, which closes the pipe."""
    command = f"{sys.executable} -m every_byte read {LEAK} | head -1"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment)
    assert found.stdout.startswith("leak.a100.pickle: device 0, ")
    assert found.stderr == ""


def test_its_help_says_how_to_record():
    text = parser().format_help()
    assert "_record_memory_history(max_entries=100_000)" in text
    assert '_dump_snapshot("snapshot.pickle")' in text

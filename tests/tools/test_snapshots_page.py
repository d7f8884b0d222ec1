"""The page on snapshots shows what the commands print, and names their options."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from places import ROOT
from recorded_snapshots import FOLDER, PROGRAMS

from every_byte.cli import diff, read

PAGE = (ROOT / "book" / "snapshots.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"```text\n(.+?)\n```", PAGE, re.DOTALL)


def test_usages():
    assert [f"usage: {shown}\n" for shown in SHOWN if shown.startswith("every-byte")] == [
        read.parser().format_usage(), diff.parser().format_usage()
    ]  # fmt: skip


@pytest.mark.parametrize(("command", "heading"), [(read, "## `every-byte read`"), (diff, "## `every-byte diff`")])
def test_each_option_is_named(command, heading):
    section = PAGE[PAGE.index(heading) :].partition("\n## ")[0]
    named = {
        word for row in re.findall(r"^\| (`-.+?) \|", section, re.MULTILINE) for word in re.findall(r"`(-.+?)`", row)
    }
    options = [one for one in command.parser().options.values() if one.dest != "help"]
    assert named == {" ".join(filter(None, [one.option_strings[-1], one.metavar])) for one in options}


def test_every_command_is_understood():
    commands = re.findall(r"^every-byte (diff|read) (.+)$", PAGE, re.MULTILINE)
    for name, words in commands:
        if "[" not in words:
            asked = (
                diff.understood(shlex.split(words)) if name == "diff" else read.parser().parse_args(shlex.split(words))
            )
            assert asked.snapshot.suffix == ".pickle"


def in_text(shown: str, said: str) -> bool:
    """Whether the paragraphs that are shown stand in what was printed, in order."""
    at = 0
    for paragraph in shown.split("\n\n"):
        at = said.find(paragraph, at)
        if at < 0:
            return False
    return True


EACH = """
import os, sys
from every_byte.__main__ import main
os.dup2(1, 2)
for words in sys.argv[1:]:
    main(words.split())
    print("----", flush=True)
"""


@pytest.mark.long
def test_what_is_shown_is_what_is_printed(tmp_path):
    """In a process of their own: a command leaves its GPU open, as it ends its process."""
    for name, recorded in {"leak": "leak", "no_room": "no_room", "snapshot": "train"}.items():
        shutil.copy(FOLDER / f"{recorded}.a100.pickle", tmp_path / f"{name}.pickle")
    program = (PROGRAMS / "train.py").read_text(encoding="utf-8")
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    (tmp_path / "other.py").write_text(program.replace("randn(64", "randn(48"), encoding="utf-8")
    commands = (
        "read leak.pickle",
        "read no_room.pickle",
        "diff snapshot.pickle train.py",
        "diff snapshot.pickle other.py",
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", EACH, *commands], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout
    *printed, _ = run.stdout.split("----\n")
    texts = [shown for shown in SHOWN if not shown.startswith("every-byte")]
    leak, no_room, same, other = printed
    for shown, said in zip(texts, (leak, leak, no_room, same, other), strict=True):
        assert in_text(shown, said), shown

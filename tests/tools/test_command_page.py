"""The page of the command names each option as the parser does, with examples that it understands."""

import re
import shlex

import pytest
from forked_runs import Runs

from book.extensions.command import options, words
from every_byte.account import run
from every_byte.account.options import understood
from every_byte.gpu.memory.specs import SPECS
from tools.site import BOOK

PAGE = (BOOK / "command.md").read_text(encoding="utf-8")
OTHERS = (BOOK / "your_own_program.md").read_text(encoding="utf-8")


def test_each_option_has_its_section_with_its_words_and_an_example():
    sections = re.findall(
        r"^### `(.+)`\n\n```\{command-option\} (.+)\n```\n\n```sh\n((?:.+\n)+)```", PAGE, re.MULTILINE
    )
    assert {name for name, _, _ in sections} == set(options())
    assert len(sections) == len(options()) == PAGE.count("{command-option}")
    for heading, named, example in sections:
        assert heading == named
        assert heading.split()[0] in example


def test_what_is_said_of_an_option_is_what_help_says(capsys):
    with pytest.raises(SystemExit):
        run.main(["--help"])
    helped = " ".join(capsys.readouterr().out.split())
    for name in options():
        assert words(name)[1:-1] in helped


def test_an_option_that_there_is_not_is_told():
    with pytest.raises(ValueError, match=r"an option must be one of --gpu NAME, .*: got '--cpu'"):
        words("--cpu")


@pytest.mark.parametrize("text", [PAGE, OTHERS], ids=["command", "your own program"])
def test_every_command_on_the_pages_is_understood(text):
    commands = re.findall(r"^every-byte (run .+)$|`every-byte (run [^`]+)`", text, re.MULTILINE)
    assert len(commands) > 5
    for one in commands:
        _, *said = shlex.split(one[0] or one[1])
        asked = understood(said)
        assert asked.gpu in {*SPECS, "live", "list"}
        assert asked.gpu == "list" or asked.script or asked.module


@pytest.fixture(scope="module")
def run_command(tmp_path_factory):
    """The command, on programs of one folder."""
    runs = Runs(tmp_path_factory.mktemp("programs"))
    yield runs
    runs.close()


@pytest.mark.parametrize(
    ("code", "program", "options"),
    [
        ("0", "import torch; torch.zeros(3, device='cuda')", ()),
        ("1", "raise ValueError('no')", ()),
        ("1", "import torch; torch.zeros(2**40, device='cuda')", ()),
        ("2", "", ("--gpu", "no-such-gpu")),
        ("2", "", ("--no-such-option",)),
        ("2", "", ("--html", "no-such-folder/report.html")),
        ("2", "", ("-m", "torch.distributed.run")),
        ("130", "raise KeyboardInterrupt", ()),
        ("143", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)", ()),
        ("the program's own", "import sys; sys.exit(7)", ()),
    ],
)
def test_the_table_of_exit_codes(run_command, code, program, options):
    assert run_command(program, *options).exit_code == (int(code) if code.isdecimal() else 7)
    table = PAGE[PAGE.index("| code | when |") :]
    assert code in [one for row in re.findall(r"^\| (.+?) \|", table, re.MULTILINE) for one in row.split(", ")]

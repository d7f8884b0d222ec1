"""The page of the command says of each option what its parser says, with examples that it understands."""

import argparse
import re
import shlex

import pytest
from forked_runs import Runs

from every_byte.cli.options import parser, understood
from every_byte.gpu.memory.specs import SPECS, find_spec
from tools.site import BOOK

PAGE = (BOOK / "command.md").read_text(encoding="utf-8")
OTHERS = (BOOK / "your_own_program.md").read_text(encoding="utf-8")


def options() -> dict[str, argparse.Action]:
    """The command's options but for --help, each by the name that its heading has: `--steps N`."""
    shown = [one for one in parser().options.values() if one.dest != "help"]
    return {" ".join(filter(None, [one.option_strings[-1], one.metavar])): one for one in shown}


def words(one: argparse.Action) -> str:
    """What `--help` says of an option, as a sentence."""
    text = " ".join(one.help.split()) % {"default": one.default}
    return f"{text[0].upper()}{text[1:]}."


def test_each_option_has_its_section_with_the_words_of_help_and_an_example():
    sections = re.findall(r"^### `(.+)`\n\n> (.+)\n\n```sh\n((?:.+\n)+)```", PAGE, re.MULTILINE)
    assert {name: said for name, said, _ in sections} == {name: words(one) for name, one in options().items()}
    assert PAGE.count("\n> ") == len(sections) == len(options())
    for heading, _, example in sections:
        assert heading.split()[0] in example


def test_its_usage_is_that_of_help():
    (usage,) = re.findall(r"```text\n(.+)\n```", PAGE)
    assert parser().format_usage() == f"usage: {usage}\n"


def test_its_table_names_each_gpu():
    rows = re.findall(r"^\| `(\S+)` \| (.+) \| ([\d,]+) \|$", PAGE, re.MULTILINE)
    assert rows == [(spec.name, spec.device_name, f"{spec.total_bytes:,d}") for spec in SPECS.values()]


def test_it_can_be_read_where_no_site_was_built():
    assert re.findall(r"\{[a-z-]+\}", PAGE) == []  # neither a directive nor a role


@pytest.mark.parametrize("text", [PAGE, OTHERS], ids=["command", "your own program"])
def test_every_command_on_the_pages_is_understood(text):
    commands = re.findall(r"^every-byte (run .+)$|`every-byte (run [^`]+)`", text, re.MULTILINE)
    assert len(commands) > 5
    for one in commands:
        _, *said = shlex.split(one[0] or one[1])
        asked = understood(said)
        assert asked.gpu in ("live", "list") or find_spec(asked.gpu).name in SPECS
        assert asked.gpu == "list" or asked.script or asked.module


@pytest.fixture(scope="module")
def run_command(tmp_path_factory):
    """The command, on programs of one folder."""
    runs = Runs(tmp_path_factory.mktemp("programs"))
    yield runs
    runs.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "program", "options"),
    [
        ("0", "import torch; torch.zeros(3, device='cuda')", ()),
        ("1", "raise ValueError('no')", ()),
        ("1", "import torch; torch.zeros(2**40, device='cuda')", ()),
        ("2", "", ("--gpu", "no-such-gpu")),
        ("2", "", ("--no-such-option",)),
        ("2", "", ("--html", "no-such-folder/report.html")),
        ("2", "", ("mpirun", "-n", "2")),
        ("2", "", ("-m", "no_such_module")),
        ("2", "", ("--settings", "no-such-setting:1")),
        ("2", "", ("--rank", "1")),
        ("130", "raise KeyboardInterrupt", ()),
        ("143", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)", ()),
        ("the program's own", "import sys; sys.exit(7)", ()),
    ],
)
def test_the_table_of_exit_codes(run_command, code, program, options):
    assert run_command(program, *options).exit_code == (int(code) if code.isdecimal() else 7)
    table = PAGE[PAGE.index("| code | when |") :]
    assert code in [one for row in re.findall(r"^\| (.+?) \|", table, re.MULTILINE) for one in row.split(", ")]

"""The page of the command names each option as the parser does, with examples that it understands."""

import re
import shlex

import pytest

from book.extensions.command import options, words
from every_byte.account import run
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
        asked = run.parser().parse_args(said)
        assert asked.gpu in {*SPECS, "live", "list"}
        assert asked.gpu == "list" or asked.script or asked.module


@pytest.mark.parametrize(
    ("code", "program", "options"),
    [
        (0, "import torch; torch.zeros(3, device='cuda')", []),
        (7, "import sys; sys.exit(7)", []),
        (1, "raise ValueError('no')", []),
        (1, "import torch; torch.zeros(2**40, device='cuda')", []),
        (2, None, []),
        (2, "", ["--gpu", "no-such-gpu"]),
        (2, "", ["--no-such-option"]),
        (130, "raise KeyboardInterrupt", []),
    ],
)
def test_exit_codes(code, program, options, tmp_path, monkeypatch, capsys):
    import sys

    path = tmp_path / "program.py"
    if program is not None:
        path.write_text(program, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    try:
        found = run.main([*options, str(path)])
    except SystemExit as exit_:
        found = exit_.code
    capsys.readouterr()
    assert found == code
    assert str(code) in PAGE or code == 7

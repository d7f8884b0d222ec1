"""What CONTRIBUTING.md names is there: files, links, commands and their options, tests, and names in files."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
from places import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FENCES = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
SPOKEN = re.findall(r"`([^`\n]+)`", FENCES.sub("", TEXT))
# What a newcomer puts a name of their own in the place of, and what is made by following the page.
OPEN = re.compile(r"\$|NAME|VERSION|CARD|^recordings/|2\.14|largest_so_far|[*…@(]|^aten/|^torchgen/|^\.venv/")


def commands() -> list[list[str]]:
    """Each line of the page's shell code, in words, without what is said behind it."""
    lines = [line for kind, code in FENCES.findall(TEXT) if kind == "sh" for line in code.splitlines() if line.strip()]
    return [shlex.split(line, comments=True) for line in lines]


def paths() -> set[str]:
    """Every file and folder that is named in the prose, in a link or in a command."""
    words = {*(word for command in commands() for word in command), *SPOKEN, *re.findall(r"\]\(([^)]+)\)", TEXT)}
    modules = {command[2] for command in commands() if command[:2] == ["python", "-m"] and command[2] != "pytest"}
    named = {word for word in words if re.fullmatch(r"[\w./]*(/[\w./]+|\.md|\.txt)", word)}
    return {name for name in named | {_file_of(module) for module in modules} if not OPEN.search(name)}


def _file_of(module: str) -> str:
    """The file that `python -m module` runs."""
    name = module.replace(".", "/")
    return f"{name}/__main__.py" if (ROOT / name).is_dir() else f"{name}.py"


def test_every_path_is_there():
    assert len(paths()) > 30
    assert {path for path in paths() if not (ROOT / path).exists()} == set()


def test_every_command_is_one():
    """A script or a module of ours with its options, a target of make, or a program that everybody has."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert len(commands()) > 20
    for program, *words in commands():
        if re.match(r"[A-Z]+=", program):  # a variable of the shell
            assert not words
        elif program == "make":
            assert words[0] in targets
        elif program == "python" and words[0] == "-m":
            assert find_spec(words[1])
        elif program == "python":
            script = (ROOT / words[0]).read_text(encoding="utf-8")
            assert [word for word in words if word.startswith("--") and f'"{word}"' not in script] == []
        else:
            assert program in {"source", "export", "git"} or (ROOT / program).stat().st_mode & 0o100, program


@pytest.mark.parametrize(
    ("names", "file"),
    [(names, file) for names, file in re.findall(r"((?:`[A-Z_]{4,}`(?: and )?)+) of `([\w/]+\.py)`", TEXT)],
)
def test_every_name_is_in_its_file(names, file):
    text = (ROOT / file).read_text(encoding="utf-8")
    for name in re.findall(r"`(\w+)`", names):
        assert re.search(rf"^{name}\b.*=", text, re.MULTILINE), name


def test_the_chapter_s_paths_are_those_of_the_others():
    """The folders in which a newcomer makes files of their own."""
    made = {Path(path).parent for path in SPOKEN if "NAME" in path and "/" in path and " " not in path}
    assert {str(folder) for folder in made} == {
        *("chapters", "tests/exercises", "tests/formulas"),
        *("utils/exercises", "utils/experiments", "utils/explorers", "utils/formulas"),
    }
    assert [folder for folder in made if not (ROOT / folder).is_dir()] == []


def test_the_page_is_plain_and_short():
    assert len(TEXT.splitlines()) <= 210
    assert [line for line in TEXT.splitlines() if len(line) > 120] == []

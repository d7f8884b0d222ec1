"""The README's session runs, and prints what the README says."""

import contextlib
import io
import re

import torch
from places import ROOT

from book.extensions.chapters import opening

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_session_prints_what_stands_below_it():
    code, output = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == output


def test_a_program_of_one_s_own_gives_its_largest_rows(capsys):
    """The second block, with a training step in the place of the reader's."""

    def train(device):
        model = torch.nn.TransformerEncoderLayer(64, 4, device=device)
        model(torch.zeros(16, 2, 64, device=device)).sum().backward()

    _, code = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {"train": train})
    said = capsys.readouterr().out
    assert said.startswith("t4-16gb, simulated, at the peak")
    assert "linear1" in said


def test_every_link_into_the_repository_leads_somewhere():
    links = re.findall(r"\]\((?!https?:)([^)#]+)", TEXT)
    assert len(links) >= 6
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_each_chapter_has_its_row_with_its_minutes():
    found = re.findall(r"^\| \[(.+?)\]\(chapters/(\S+)\) \| .+\? \| (\d+) \|$", TEXT, re.MULTILINE)
    rows = {name: (title, int(minutes)) for title, name, minutes in found}
    chapters = {path.name: opening(path) for path in sorted((ROOT / "chapters").glob("*.ipynb"))}
    assert list(rows) == list(chapters)
    for name, (title, minutes) in rows.items():
        assert chapters[name].title.startswith(title)
        assert chapters[name].minutes == minutes


def test_the_site_says_the_same_of_its_commands():
    page = (ROOT / "book" / "index.md").read_text(encoding="utf-8")
    commands = re.findall(r"^make .*$", page, re.MULTILINE)
    assert commands
    assert set(commands) <= set(TEXT.splitlines())


def test_the_readme_stands_on_about_one_screen():
    prose = [
        line for line in TEXT.splitlines() if not line.startswith(("|", "!["))
    ]  # tables and pictures are one line each
    assert len(prose) < 115
    assert [line for line in prose if len(line) > 132] == []

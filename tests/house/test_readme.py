"""The README's sessions run, by the package alone, and print what the README says; its links and numbers hold."""

import contextlib
import io
import re

import pytest
from places import ROOT

from book.extensions.chapters import opening
from every_byte.gpu.memory.versions import VERSIONS, verified
from every_byte.verify.recordings import Recordings, versions
from every_byte.verify.verify import jobs
from utils.formulas.gpt import GPTSettings, held_in_loss
from utils.models.gpt import letters

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_session_prints_what_stands_below_it():
    code, output = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == output


def test_what_the_command_says_of_memory_that_ran_out_is_in_the_stored_report():
    command, said = re.search(r"```text\n\$ (.*?)\n(.*?)```", TEXT, re.DOTALL).groups()
    stored = (ROOT / "book" / "examples" / "train.t4.txt").read_text(encoding="utf-8")
    assert f"\n$ {command}\n" in stored
    assert said.startswith("Out of memory on t4-16gb: ")
    assert stored.startswith(said)


def test_the_versions_that_it_calls_held_are_those_that_are():
    row, _ = re.search(r"^\| ([\d., ]+) \| yes: over ([\d,]+) programs", TEXT, re.MULTILINE).groups()
    assert tuple(row.split(", ")) == verified()
    assert {name for name, rules in VERSIONS.items() if not rules.is_verified} == {"2.9", "2.10", "2.12"}


@pytest.mark.nightly
def test_of_each_there_are_so_many_recordings():
    for version in versions().values():
        recordings = Recordings(version)
        assert sum(one in recordings for one in jobs([])) > 1_100


def test_the_session_meets_its_prediction():
    predicted = re.search(r"^predicted, activations: ([\d,]+)$", TEXT, re.MULTILINE)[1]
    (requested,) = re.findall(r"^activations +\d+ +([\d,]+) ", TEXT, re.MULTILINE)
    assert predicted == requested


def test_what_it_says_of_gpt2():
    """The number of chapter 4, by the closed form; that a run meets it, the chapter asserts."""
    predicted = held_in_loss(GPTSettings()).bytes(**letters("gpt2"), b=12)
    assert f"GPT-2's training step holds at its peak, {predicted:,} bytes" in TEXT


def test_a_page_that_the_site_fills_says_so_where_it_is_not():
    """And the README does not send one there."""
    for path in (ROOT / "book").glob("*.md"):
        text = path.read_text(encoding="utf-8")
        if "{literalinclude}" in text or "{reference}" in text:
            assert text.startswith("% A page of the site, which fills it")
            assert f"build/site/html/{path.stem}.html." in text.split("\n\n")[0]
            assert f"]({path.relative_to(ROOT)})" not in TEXT
            assert f"`{path.stem}.html`" in TEXT


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


def test_what_it_says_of_published_figures():
    counted = r"Of\s+(\d+) figures.*?(\d+) (?:come out|are met).*?other (\d+)"
    page = (ROOT / "book" / "measured_by_others.md").read_text(encoding="utf-8")
    said, found = (re.search(counted, text, re.DOTALL).groups() for text in (TEXT, page))
    assert said == found

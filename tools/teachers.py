"""Writes book/teachers.md, the page for those who teach with the book: `python -m tools.teachers`.

Times are those of tools/reading_time.py, what is said of wrong answers comes from the judges, which are run, and the
figures are those of tools/slides.py.
"""

import re
import sys
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

import nbformat

from book.extensions.chapters import opening
from tools.answers import Exercise, Reply, exercises, replies
from tools.class_sessions import MOST_MINUTES, PLANS, Session
from tools.needed_cells import Running
from tools.reading_time import MINUTES, MINUTES_AN_EXERCISE, WORDS_A_MINUTE, minutes_by_section
from tools.slides import ZIP, figures
from tools.tested import TESTED
from tools.whole_files import write_whole

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "book" / "teachers.md"

HEAD = """# For teachers

Ways through the book for a class, what to install, figures for slides, a quiz, and for each exercise what it tests and
what is often answered wrongly. Written by `python -m tools.teachers`.

## What a class needs

No GPU: every cell runs on a simulated one, and gives the same bytes on every machine. Each student needs a clone of the
book, Python 3.11 or newer and `make`; `make lab` installs the rest, and opens the chapters in JupyterLab. On Linux
`make lab TORCH_INDEX=https://download.pytorch.org/whl/cpu` takes PyTorch's CPU build, a tenth of the other one. Let
students do it before the first session: the installation takes minutes, and a classroom's network may be slow.

For a class that shares a server, see [a class on one server](jupyterhub.md). Where nothing can be installed, the pages
of this site are enough to read, to predict and to move the sliders; the exercises are judged in JupyterLab alone.

Predictions are to be written down before a cell is run. The book asks for {predictions} of them; in JupyterLab and on
these pages a result waits until one is there.

## A class in one, four or eight sessions

The minutes are those of a careful reader, by the rule that the chapters' own times follow: {rule}.
They are added, then rounded up to five. No session is longer than {most} minutes. What is left out of a chapter can be
read at home; each chapter opens with a short path of its own.
"""
OF_SECTIONS = """
### Minutes of each section

To choose for yourself: the sections by their numbers, with their minutes in brackets, rounded. A chapter's opening and
its takeaways are not among them.

| chapter | minutes |
|---|---|
"""
FIGURES = """
## Figures for slides

The figures that chapters draw, as SVG whose text stays text: {{download}}`all of them, zipped <slides/{zip}>`. They may
be used and changed if you give credit, as *Every Byte, by The Every Byte authors, CC BY 4.0*; each file says so in
itself, with its chapter and section. Charts have no ground of their own, and can be read on a light slide and on a dark
one. In a clone, `python -m tools.slides` writes them into `build/slides`.

| figure | from |
|---|---|
"""
QUIZ = """
## A quiz

[A quiz](quiz.ipynb) asks two short questions about each chapter. Each answer is a folded cell that computes it.

"""
EXERCISES = """
## The exercises

What each exercise tests, the sections that it needs, and wrong answers with what the judge says of them: either the
reply to an answer that was tried, or the sentence that the judge adds where it recognises the mistake. Right answers
are folded below the exercises. Numbers are bytes where nothing else is said.
"""


def main() -> int:
    """Write the page."""
    write_whole(PAGE, page())
    print(PAGE.relative_to(ROOT))
    return 0


def page() -> str:
    """The page, in Markdown; every judge is run for it."""
    return told() + "".join(of_chapter(path) for path in chapters())


def told() -> str:
    """The page without what is said of exercises."""
    rule = ", ".join(f"{minutes:g} minutes for each {what}" for what, minutes in MINUTES.items())
    rule = f"{WORDS_A_MINUTE} words a minute, {rule}, {MINUTES_AN_EXERCISE} for each exercise"
    parts = [HEAD.format(predictions=_n_predictions(), rule=rule, most=MOST_MINUTES)]
    for name, sessions in PLANS.items():
        parts += [f"\n### {name}\n", *_plan(sessions)]
    parts += [OF_SECTIONS, *_of_sections(), FIGURES.format(zip=ZIP), *_of_figures(), QUIZ.rstrip("\n"), "\n", EXERCISES]
    return "".join(parts)


@cache
def chapters() -> tuple[Path, ...]:
    """The notebooks."""
    return tuple(sorted((ROOT / "chapters").glob("*.ipynb")))


@cache
def section_minutes() -> dict[str, tuple[str, float]]:
    """By a section's number its title and its minutes."""
    found = {}
    for path in chapters():
        for heading, minutes in minutes_by_section(_read(path)).items():
            number, _, title = heading.partition(" ")
            if re.fullmatch(r"\d+\.\d+", number):
                found[number] = title, minutes
    return found


def _read(path: Path) -> nbformat.NotebookNode:
    return nbformat.reads(path.read_text(encoding="utf-8"), as_version=nbformat.NO_CONVERT)


def _n_predictions() -> int:
    texts = (cell.source for path in chapters() for cell in _read(path).cells if cell.cell_type == "markdown")
    return sum(len(re.findall(r"<!--\s*predict\b", text)) for text in texts)


def _plan(sessions: list[Session]) -> Iterator[str]:
    minutes = {number: of_one for number, (_, of_one) in section_minutes().items()}
    for number, one in enumerate(sessions, start=1):
        home = f" At home, {one.minutes_at_home} minutes: {_exercises(one.at_home)}." if one.at_home else ""
        yield (
            f"\n{number}. **{one.title}**: {one.minutes(minutes)} minutes.\n"
            f"   Sections {_listed(one.sections.split())}; {_exercises(one.exercises)}.{home}\n"
        )


def _exercises(numbers: str) -> str:
    """In words that become links: "exercises 1 and 3 of chapter 0; exercise 1 of chapter 1"."""
    parts = []
    for chapter, found in groupby(numbers.split(), key=lambda number: number.split(".")[0]):
        listed = [number.split(".")[1] for number in found]
        parts.append(f"exercise{'s' * (len(listed) > 1)} {_listed(listed)} of chapter {chapter}")
    return "; ".join(parts)


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def _of_sections() -> Iterator[str]:
    for path in chapters():
        number = f"{int(path.stem[:2])}."
        parts = [
            f"{name} ({minutes:.0f})" for name, (_, minutes) in section_minutes().items() if name.startswith(number)
        ]
        yield f"| [{opening(path).title}](chapters/{path.name}) | {', '.join(parts)} |\n"


def _of_figures() -> Iterator[str]:
    for one in figures():
        place = f"section {one.section.partition(' ')[0]}"
        yield f"| {{download}}`{one.name} <slides/{one.name}.svg>` | {place}, {one.section.partition(' ')[2]} |\n"


def of_chapter(path: Path) -> str:
    """What is said of a chapter's exercises."""
    running = Running(_read(path))
    parts = [f"\n### Chapter {opening(path).title}\n"]
    parts += [_of_exercise(one, replies(one, running)) for one in exercises() if one.notebook == path]
    return "".join(parts)


def _of_exercise(one: Exercise, wrong: list[Reply]) -> str:
    tests, where = TESTED[one.number]
    chapter, number = one.number.split(".")
    sections = where.split(", ")
    place = f"section{'s' * (len(sections) > 1)} {_listed(sections)}"
    end = "" if one.title.endswith("?") else "."
    rows = "".join(f"| {_cell(reply.answer)} | {_cell(reply.says.removeprefix('Not yet: '))} |\n" for reply in wrong)
    return (
        f"\nExercise {number} of chapter {chapter}, **{one.title}**{end} It tests {tests} ({place}).\n\n"
        f"| a wrong answer | what is said of it |\n|---|---|\n{rows}"
    )


def _cell(text: str) -> str:
    """A text as a cell of a table, its code as it is."""
    pieces = text.replace("|", r"\|").split("`")
    plain = [piece if number % 2 else re.sub(r"([*_<>$\[\]])", r"\\\1", piece) for number, piece in enumerate(pieces)]
    return " ".join("`".join(plain).split())


if __name__ == "__main__":
    sys.exit(main())

"""Writes book/teachers.md, the page for teachers: `python -m tools.teachers`.

Times come from tools/reading_time.py, replies to wrong answers from the judges, which are run, and figures from
tools/slides.py.
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

This page has plans for a class, what to install, figures for slides, a quiz, and, for each exercise, what it tests and
which wrong answers to expect. `python -m tools.teachers` writes it.

## What a class needs

Your class needs no GPU. Every cell runs on a simulated one and gives the same bytes on every machine. Each student
needs a clone of the book, Python 3.11 or newer, and `make`. Then `make lab` installs everything else and opens the
chapters in JupyterLab. On Linux, `make lab TORCH_INDEX=https://download.pytorch.org/whl/cpu` installs PyTorch's CPU
build, which is a tenth of the size. Ask students to do this before the first session, because the installation takes
minutes and a classroom's network may be slow.

If the class shares a server, see [a class on one server](jupyterhub.md). If students cannot install anything, they can
read, predict and move the sliders on the pages of this site; only JupyterLab checks the exercises.

Students should write down each prediction before they run the cell. The book asks for {predictions} predictions. In
JupyterLab and on these pages, a result stays hidden until the student has guessed.

## A class in one, four or eight sessions

The minutes are for a careful reader, by the same rule as the chapters' own times: {rule}.
The sum is rounded up to five minutes, and no session is longer than {most}. Students can read the omitted sections at
home. Each chapter also opens with a short path of its own.
"""
OF_SECTIONS = """
### Minutes of each section

Use this table to make a plan of your own. It lists each section's number and, in brackets, its rounded minutes, without
the chapter's opening and takeaways.

| chapter | minutes |
|---|---|
"""
FIGURES = """
## Figures for slides

You can download the chapters' figures as SVG files with editable text: {{download}}`all, zipped <slides/{zip}>`.
You may use and change them if you credit *Every Byte, by The Every Byte authors, CC BY 4.0*. Each file contains this
credit, with its chapter and section. Charts have a transparent background and are readable on light and dark slides. In
a clone, `python -m tools.slides` writes them to `build/slides`.

| figure | from |
|---|---|
"""
QUIZ = """
## A quiz

[The quiz](quiz.ipynb) asks two short questions about each chapter. A folded cell computes each answer.

"""
EXERCISES = """
## The exercises

For each exercise, this part states what it tests, which sections it needs, and how the judge replies to wrong answers.
A reply is either the full reply to an answer that we tried, or the sentence that the judge adds when it recognises a
mistake. In the chapters, the solution is folded below each exercise. Numbers are bytes unless they have another unit.
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
    """The page without its part on the exercises."""
    rule = ", ".join(f"{minutes:g} minutes for each {what}" for what, minutes in MINUTES.items())
    rule = f"{WORDS_A_MINUTE} words a minute, {rule}, and {MINUTES_AN_EXERCISE} minutes for each exercise"
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
    return {number: of_one for path in chapters() for number, of_one in _sections_of(path).items()}


def _sections_of(path: Path) -> dict[str, tuple[str, float]]:
    headings = {tuple(name.split(" ", 1)): minutes for name, minutes in minutes_by_section(_read(path)).items()}
    return {name[0]: (name[1], minutes) for name, minutes in headings.items() if re.fullmatch(r"\d+\.\d+", name[0])}


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
        parts = [f"{name} ({minutes:.0f})" for name, (_, minutes) in _sections_of(path).items()]
        yield f"| [{opening(path).title}](chapters/{path.name}) | {', '.join(parts)} |\n"


def _of_figures() -> Iterator[str]:
    for one in figures():
        number, _, title = one.section.partition(" ")
        place = f"section {number}, {title}" if number[:1].isdigit() else f"chapter {one.chapter[0]}, {one.section}"
        yield f"| {{download}}`{one.name} <slides/{one.name}.svg>` | {place} |\n"


def of_chapter(path: Path) -> str:
    """A chapter's exercises, each with its wrong answers and the judge's replies."""
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
        f"| wrong answer | reply |\n|---|---|\n{rows}"
    )


def _cell(text: str) -> str:
    """A text as a cell of a table, its code as it is."""
    pieces = text.replace("|", r"\|").split("`")
    plain = [piece if number % 2 else re.sub(r"([*_<>$\[\]])", r"\\\1", piece) for number, piece in enumerate(pieces)]
    return " ".join("`".join(plain).split())


if __name__ == "__main__":
    sys.exit(main())

"""How long a chapter takes, by one rule: `python -m tools.reading_time` prints it, and what it gives for each chapter.

An estimate, made to be honest and not to please, for a reader who predicts in earnest, reads the code and checks
equations with a pencil: prose at 150 words a minute, three seconds a line of code that is shown, a minute and a half
a prediction, half a minute a result, half a minute a numbered equation, eight an exercise. Rounded up to five minutes.
Exercises, and sections headed "Detour: ...", are not on the way: each states its own minutes.
"""

import math
import re
import sys
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode

from book.extensions.folds import WORDS as FOLDS

ROOT = Path(__file__).resolve().parent.parent
WORDS_A_MINUTE = 150
MINUTES = {"line of code": 0.05, "prediction": 1.5, "result": 0.5, "equation": 0.5}
MINUTES_AN_EXERCISE = 8
DETOUR = "Detour: "
_HIDDEN = {*FOLDS, "fetch"}


class Reading(NamedTuple):
    """What a chapter asks of a reader."""

    words: int
    lines: int
    predictions: int
    results: int
    equations: int
    exercises: int

    @property
    def exact_minutes(self) -> float:
        """To read it, with its predictions, without its exercises; not rounded."""
        n = {"line of code": self.lines, "prediction": self.predictions}
        n |= {"result": self.results, "equation": self.equations}
        return self.words / WORDS_A_MINUTE + sum(minutes * n[what] for what, minutes in MINUTES.items())

    @property
    def minutes(self) -> int:
        """The same, rounded up."""
        return to_five(self.exact_minutes)

    @property
    def exercise_minutes(self) -> int:
        """For all its exercises."""
        return to_five(self.exercises * MINUTES_AN_EXERCISE)


def to_five(minutes: float) -> int:
    """Rounded up to five minutes, as a reader's watch has them."""
    return 5 * math.ceil(minutes / 5)


def count_words(text: str) -> int:
    """Words of prose: neither equations, nor code, nor markup, nor table rules count."""
    text = re.sub(r"```.*?```|\$\$.*?\$\$|\\begin\{(\w+\*?)\}.*?\\end\{\1\}", " ", text, flags=re.DOTALL)
    text = re.sub(r"\$[^$\n]+\$|\]\([^)]*\)", " ", text)
    text = re.sub(r"<!--.*?-->|</?[a-z][^>]*>", " ", text, flags=re.DOTALL)  # a "<" in a formula is no tag
    return len(re.findall(r"[^\W\d_][\w'’-]*", text))


def before_exercises(notebook: NotebookNode) -> list[NotebookNode]:
    """The cells that are read: those before the one that has the heading of the exercises."""
    starts = [i for i, cell in enumerate(notebook.cells) if re.search(r"^## Exercises\b", cell.source, re.MULTILINE)]
    return notebook.cells[: starts[0]] if starts else notebook.cells


def reading(notebook: NotebookNode) -> Reading:
    """What a chapter asks on the way, counted; and its exercises, which are not part of the reading."""
    on_the_way = [cell for name, cells in _sections(notebook) if not name.startswith(DETOUR) for cell in cells]
    everywhere = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return _counted(on_the_way)._replace(exercises=len(re.findall(r"^### Exercise\b", everywhere, re.MULTILINE)))


def minutes_by_section(notebook: NotebookNode) -> dict[str, float]:
    """What each section of a chapter takes, detours too, without its exercises; not rounded.

    The names are the headings: "2.3 What PyTorch really keeps"; "" is what stands before the first one.
    """
    return {name: _counted(cells).exact_minutes for name, cells in _sections(notebook)}


def _sections(notebook: NotebookNode) -> list[tuple[str, list[NotebookNode]]]:
    """The cells before the exercises, by the headings under which they are; a cell of prose is cut at each."""
    found: list[tuple[str, list[NotebookNode]]] = [("", [])]
    for cell in before_exercises(notebook):
        for text in re.split(r"^(?=## )", cell.source, flags=re.MULTILINE) if cell.cell_type == "markdown" else ():
            if text.startswith("## "):
                found.append((text.splitlines()[0].removeprefix("## "), []))
            found[-1][1].append(nbformat.v4.new_markdown_cell(text))
        if cell.cell_type == "code":
            found[-1][1].append(cell)
    return found


def _counted(cells: list[NotebookNode]) -> Reading:
    prose = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    code = [cell for cell in cells if cell.cell_type == "code" and not _HIDDEN & set(cell.metadata.get("tags", []))]
    return Reading(
        words=count_words(prose),
        lines=sum(_is_read(line) for cell in code for line in cell.source.splitlines()),
        predictions=len(re.findall(r"<!--\s*predict\b", prose)),
        results=sum(bool(cell.outputs) for cell in code),
        equations=len(re.findall(r"\\tag\{", prose)),
        exercises=0,
    )


def _is_read(line: str) -> bool:
    """Whether a line of code has something to be read: blank lines and imports have not."""
    return bool(line.strip()) and not line.lstrip().startswith(("import ", "from "))


def main() -> int:
    """Print the rule and every chapter's figures."""
    rule = ", ".join(f"{minutes:g} min for each {what}" for what, minutes in MINUTES.items())
    print(f"{WORDS_A_MINUTE} words a minute, {rule}; {MINUTES_AN_EXERCISE} min for each exercise; rounded up to 5")
    for path in sorted((ROOT / "chapters").glob("*.ipynb")):
        found = reading(nbformat.reads(path.read_text(encoding="utf-8"), as_version=nbformat.NO_CONVERT))
        print(f"{path.stem:32}{found.minutes:4} min, exercises {found.exercise_minutes:3} min   {found._asdict()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

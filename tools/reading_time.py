"""How long a chapter takes, by one rule: `python -m tools.reading_time` prints it, and what it gives for each chapter.

An estimate, made to be honest and not to please, for a reader who predicts in earnest and checks equations with a
pencil: dense prose at 130 words a minute, a minute and a half a prediction, half a minute a result, half a minute a
numbered equation, eight an exercise. Rounded up to five minutes.
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
WORDS_A_MINUTE = 130
MINUTES = {"prediction": 1.5, "result": 0.5, "equation": 0.5}
MINUTES_AN_EXERCISE = 8


class Reading(NamedTuple):
    """What a chapter asks of a reader."""

    words: int
    predictions: int
    results: int
    equations: int
    exercises: int

    @property
    def exact_minutes(self) -> float:
        """To read it, with its predictions, without its exercises; not rounded."""
        exact = self.words / WORDS_A_MINUTE + self.predictions * MINUTES["prediction"]
        return exact + self.results * MINUTES["result"] + self.equations * MINUTES["equation"]

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
    """What a chapter asks, counted; its exercises, and what stands behind them, are not part of the reading."""
    before = before_exercises(notebook)
    prose = "\n\n".join(cell.source for cell in before if cell.cell_type == "markdown")
    results = [cell for cell in before if cell.cell_type == "code" and cell.outputs]
    everywhere = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return Reading(
        words=count_words(prose),
        predictions=len(re.findall(r"<!--\s*predict\b", prose)),
        results=sum(not FOLDS.keys() & set(cell.metadata.get("tags", [])) for cell in results),
        equations=len(re.findall(r"\\tag\{", prose)),
        exercises=len(re.findall(r"^### Exercise\b", everywhere, re.MULTILINE)),
    )


def minutes_by_section(notebook: NotebookNode) -> dict[str, float]:
    """What each section of a chapter takes, without its exercises; not rounded, so that they add up to the chapter.

    The names are the headings: "2.3 What PyTorch really keeps"; "" is what stands before the first one.
    """
    heading, found = "", {}
    for cell in before_exercises(notebook):
        if cell.cell_type == "code":
            found.setdefault(heading, []).append(cell)
            continue
        for text in re.split(r"^(?=## )", cell.source, flags=re.MULTILINE):
            heading = text.splitlines()[0].removeprefix("## ") if text.startswith("## ") else heading
            found.setdefault(heading, []).append(nbformat.v4.new_markdown_cell(text))
    return {name: reading(nbformat.v4.new_notebook(cells=cells)).exact_minutes for name, cells in found.items()}


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

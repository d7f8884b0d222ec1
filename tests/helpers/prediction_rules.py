"""The rules of predictions: each is asked for in a comment, and found in the next result, whose cell has no assert."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from nbformat import NotebookNode

from book.extensions.folds import WORDS as FOLDS

CHECK, BODY, SOLUTION = FOLDS
PREDICT = re.compile(r"\*\*Predict\b")
QUESTION = re.compile(r"<!--\s*predict\s*(?::(.*?))?-->", re.DOTALL)
ASKED = re.compile(r"(?:([^=]*?)\s*=\s*)?(.*?)(?:\s*@(\d+))?(?:\s+\[([^\]]+)\])?")
NUMBER = re.compile(r"[-+−]?\d+(?:,\d{3})*(?:\.\d+)?")
UNIT = re.compile(r"%|percent\b|[KMGT]iB\b|[kMGT]B\b|[GT]?FLOPs?\b|(?:bsd|sbd)²?|units\b|times\b")
"""Units other than bytes, as they stand behind a number."""
IN_NAME = re.compile(rf"(?<!\d )(?:{UNIT.pattern})")
ASSERT = re.compile(r"^\s*assert\b", re.MULTILINE)


class Asked(NamedTuple):
    """One number that a question asks for, as book/_static/predictions.js reads it."""

    name: str
    label: str
    nth: int
    unit: str


def asked(words: str) -> Asked:
    """What a comment asks for between two strokes: name = LABEL @2 [GiB]."""
    name, label, nth, unit = ASKED.fullmatch(words.strip()).groups()
    return Asked(name or label, label, int(nth or 1), unit or "")


def answer_in(result: str, one: Asked) -> tuple[str, str] | None:
    """The number behind the label, as book/_static/predictions.js finds it, and the unit that stands behind it."""
    for line in result.split("\n"):
        behind = line.partition(one.label)[2]
        if len(numbers := list(NUMBER.finditer(behind))) >= one.nth:
            number = numbers[one.nth - 1]
            unit = UNIT.match(behind[number.end() :].lstrip())
            return number[0], unit[0] if unit else ""
    return None


def is_folded(cell: NotebookNode) -> bool:
    return bool(FOLDS.keys() & set(cell.metadata.get("tags", [])))


def shown_by(cell: NotebookNode) -> str:
    texts = (output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)
    return "\n".join(texts)


def questions_of(notebook: NotebookNode) -> Iterator[tuple[NotebookNode, list[str], NotebookNode | None]]:
    """Each cell that may ask, what its comments ask for, and the code cell behind, whose result answers."""
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type != "markdown" or number == 0:  # the opening says what **Predict** asks for, and asks nothing
            continue
        behind = (one for one in notebook.cells[number + 1 :] if one.cell_type == "code" and not is_folded(one))
        yield cell, QUESTION.findall(cell.source), next(behind, None)


def the_predictions(notebook: NotebookNode) -> Iterator[str]:
    """Each prediction is asked for in a comment, and found in the next result, whose cell has no assert."""
    for cell, questions, result in questions_of(notebook):
        n_asked = len(PREDICT.findall(cell.source))
        if n_asked > len(questions):
            yield f"cell {cell.id} asks for {n_asked} predictions: {len(questions)} have a comment <!-- predict: .. -->"
        if questions and (result is None or not result.outputs):
            yield f"cell {cell.id} asks for a prediction, and no result stands behind it"
        elif questions:
            yield from (f"cell {cell.id} {words}" for question in questions for words in _amiss(question, result))
            if ASSERT.search(result.source):
                yield f"cell {result.id} answers a prediction and asserts: move that to a cell tagged {CHECK} behind it"


def _amiss(question: str, result: NotebookNode) -> Iterator[str]:
    for one in (asked(words) for words in question.split("|") if words.strip()):
        found = answer_in(shown_by(result), one)
        if found is None:
            yield f"asks for {one.label!r}, which stands before no number in the result of {result.id}"
            continue
        number, unit = found
        named, heading = IN_NAME.search(one.name), UNIT.search(shown_by(result).split("\n")[0])
        if unit and unit != one.unit:
            yield f"asks for {one.label!r}, which is {number} {unit}: say so behind it, [{unit}]"
        elif named and not one.unit:
            yield f"asks for {one.name!r}: say the unit behind the label, [{named[0].replace('percent', '%')}]"
        elif heading and "." in number and not one.unit:
            yield f"asks for {one.label!r}, {number} in a table of {heading[0]}: say the unit behind it, in [..]"


def the_folds(notebook: NotebookNode) -> Iterator[str]:
    """What a cell asserts, and the body of a function that it calls, stand folded behind it; a check shows nothing."""
    for before, cell in zip([None, *notebook.cells], notebook.cells, strict=False):
        tags = set(cell.metadata.get("tags", []))
        if cell.cell_type != "code" or not {CHECK, BODY} & tags:
            continue
        if before is None or before.cell_type != "code":
            yield f"the fold {cell.id} must stand right behind the cell that it is about"
        if not (cell.metadata.get("jupyter", {}).get("source_hidden") and "hide-cell" in tags):
            yield f"{cell.id} must be folded: metadata jupyter.source_hidden true, and the tag hide-cell"
        if cell.outputs and CHECK in tags:
            yield f"the check {cell.id} must show nothing"

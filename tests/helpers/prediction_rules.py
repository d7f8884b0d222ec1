"""The rules of predictions: each is asked for in a comment, found in the next result, and not given away beforehand."""

import re
from collections.abc import Iterator

from nbformat import NotebookNode

CHECK, BODY = "check", "body"
FOLDED = {CHECK, BODY}
"""Cells that stand folded behind another: what it asserts, and how a function that it calls is made."""
PREDICT = re.compile(r"\*\*Predict\b")
QUESTION = re.compile(r"<!--\s*predict\s*(?::(.*?))?-->", re.DOTALL)
LABEL = re.compile(r"(?:([^=]*?)\s*=\s*)?(.*?)(?:\s*@(\d+))?")
NUMBER = re.compile(r"[-+−]?\d+(?:,\d{3})*(?:\.\d+)?")
ASSERT = re.compile(r"^\s*assert\b", re.MULTILINE)


def answer_in(result: str, label: str) -> str | None:
    """The number that a question asks for: the first behind its label, as book/_static/predictions.js finds it."""
    _, name, nth = LABEL.fullmatch(label).groups()
    for line in result.split("\n"):
        numbers = NUMBER.findall(line.partition(name)[2]) if name in line else []
        if len(numbers) >= int(nth or 1):
            return numbers[int(nth or 1) - 1]
    return None


def is_folded(cell: NotebookNode) -> bool:
    return bool(FOLDED & set(cell.metadata.get("tags", [])))


def shown_by(cell: NotebookNode) -> str:
    texts = (output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)
    return "\n".join(texts)


def the_predictions(notebook: NotebookNode) -> Iterator[str]:
    """Each prediction is asked for in a comment, found in the next result, and not given away beforehand."""
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type != "markdown" or number == 0:  # the opening says what **Predict** asks for, and asks nothing
            continue
        questions, n_asked = QUESTION.findall(cell.source), len(PREDICT.findall(cell.source))
        if n_asked > len(questions):
            yield f"cell {cell.id} asks for {n_asked} predictions: {len(questions)} have a comment <!-- predict: .. -->"
        behind = (one for one in notebook.cells[number + 1 :] if one.cell_type == "code" and not is_folded(one))
        result = next(behind, None)
        if not questions or result is None:
            continue
        for label in (one.strip() for question in questions for one in question.split("|") if one.strip()):
            if answer_in(shown_by(result), label) is None:
                yield f"cell {cell.id} asks for {label!r}, which stands before no number in the result of {result.id}"
        if ASSERT.search(result.source):
            yield f"cell {result.id} answers a prediction and asserts: move that to a cell tagged {CHECK} behind it"


def the_folds(notebook: NotebookNode) -> Iterator[str]:
    """What a cell asserts, and the body of a function that it calls, stand folded behind it; a check shows nothing."""
    for before, cell in zip([None, *notebook.cells], notebook.cells, strict=False):
        if cell.cell_type != "code" or not is_folded(cell):
            continue
        if before is None or before.cell_type != "code":
            yield f"the fold {cell.id} must stand right behind the cell that it is about"
        hidden = cell.metadata.get("jupyter", {}).get("source_hidden")
        if not (hidden and "hide-cell" in cell.metadata.get("tags", [])):
            yield f"{cell.id} must be folded: metadata jupyter.source_hidden true, and the tag hide-cell"
        if cell.outputs and CHECK in cell.metadata.get("tags", []):
            yield f"the check {cell.id} must show nothing"

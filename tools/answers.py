"""What judges say of wrong answers: the table that a judge has, or answers put into the chapter's own cell."""

import ast
import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import nbformat
from nbformat import NotebookNode

import utils.exercises.judge as judges
from book.extensions.chapters import number
from tools.needed_cells import Running
from tools.wrong_answers import REACH, WRONG, Wrong

ROOT = Path(__file__).resolve().parent.parent
TITLE = re.compile(r"^### Exercise (\d+): (.+)$", re.MULTILINE)
UNANSWERED = "No answer yet"
MOST, MOST_OF_A_PART = 8, 4
"""Of a judge's own table, so many rows at most are shown; where it asks for several numbers, so many for each."""
OF_THE_READERS_MODEL = {"8.3"}
"""Exercises whose judge makes its table of whatever model a reader has: answers are tried instead."""


class Exercise(NamedTuple):
    """An exercise as its chapter has it: `cell` is the one that judges."""

    number: str
    title: str
    notebook: Path
    cell: NotebookNode


class Reply(NamedTuple):
    """A wrong answer, and what its judge says of it, or the sentence by which it helps."""

    answer: str
    says: str


class _Asked(NamedTuple):
    """What a judge compares an answer with, and the mistakes that it knows, at a setting if there are several."""

    truth: int
    mistakes: Mapping[int, str]
    setting: str = ""


def exercises() -> Iterator[Exercise]:
    """All exercises of all chapters."""
    for path in sorted((ROOT / "chapters").glob("*.ipynb")):
        cells, found = nbformat.reads(path.read_text(encoding="utf-8"), as_version=nbformat.NO_CONVERT).cells, None
        for cell, behind in zip(cells, [*cells[1:], None], strict=True):
            if cell.cell_type == "markdown" and (title := TITLE.search(cell.source)):
                found = title
            elif found and behind and "solution" in behind.metadata.get("tags", []):
                yield Exercise(f"{number(path)}.{found[1]}", found[2], path, cell)
                found = None


def as_given(exercise: Exercise) -> list[Reply]:
    """The reply that the chapter stores, where its cell hands over something to mend."""
    text = "".join(output.get("data", {}).get("text/plain", "") for output in exercise.cell.outputs)
    return [Reply("as it is handed over", text)] if text and UNANSWERED.lower() not in text.lower() else []


def replies(exercise: Exercise, chapter: Running) -> list[Reply]:
    """All wrong answers to an exercise that are known, each with its reply.

    Raises: ValueError for an answer that the judge finds right.
    """
    chapter.run_before(exercise.cell.id)
    found = as_given(exercise) + [_judged(exercise, wrong, chapter) for wrong in WRONG.get(exercise.number, [])]
    return found + _of_its_table(exercise, chapter)


def _judged(exercise: Exercise, wrong: Wrong, chapter: Running) -> Reply:
    if exercise.cell.source.count(wrong.old) != 1:
        raise ValueError(f"exercise {exercise.number} must have {wrong.old!r} once in its cell {exercise.cell.id}.")
    verdict = chapter.value_of(exercise.cell.source.replace(wrong.old, wrong.new))
    if verdict or UNANSWERED in repr(verdict):
        raise ValueError(f"{wrong.words} must be a wrong answer to exercise {exercise.number}: got {verdict!r}.")
    return Reply(wrong.words, repr(verdict))


def _of_its_table(exercise: Exercise, chapter: Running) -> list[Reply]:
    """Of each mistake that the judge itself names: a number, and the sentence that helps."""
    if exercise.number in OF_THE_READERS_MODEL:
        return []
    old, new = REACH.get(exercise.number, ("None", "-1"))
    chapter.value_of("\n".join([*_imports(exercise.cell.source), "None"]))  # or a judge would be loaded deaf, for good
    with _listening() as asked:
        chapter.value_of(exercise.cell.source.replace(old, new))
    parts = _parts(exercise.cell.source)
    in_parts = len(parts) == len(asked) > 1
    found: dict[str, Reply] = {}
    for place, one in enumerate(asked):
        part = f"`{parts[place]}`: " if in_parts else ""
        where = f" for `{one.setting}`" if one.setting else ""
        new_ones = {hint: n for n, hint in one.mistakes.items() if n != one.truth and n >= 0 and hint not in found}
        new_ones = {hint: n for hint, n in new_ones.items() if not re.match(r"\d+ things\.", hint)}  # several at once
        for hint, n in list(new_ones.items())[: MOST_OF_A_PART if in_parts else MOST]:
            found[hint] = Reply(f"{part}{n:,d}{where}", hint)
    return list(found.values())[: MOST * len(parts) if in_parts else MOST]


def _imports(source: str) -> list[str]:
    """The imports of a cell."""
    return [ast.unparse(node) for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom)]


def _parts(source: str) -> list[str]:
    """What a cell asks for: names that are None, or keys whose values are."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and _is_none(node.value):
            names += map(ast.unparse, node.targets)
        elif isinstance(node, ast.Dict):
            names += [
                ast.literal_eval(key) for key, value in zip(node.keys, node.values, strict=True) if _is_none(value)
            ]
    return names


def _is_none(node: ast.expr) -> bool:
    return ast.unparse(node) == "None"


@contextlib.contextmanager
def _listening() -> Iterator[list[_Asked]]:
    """Judges that find everything right, and note what they compare with: yields what is noted."""
    heard: list[_Asked] = []

    def check(_answer: object, truth: int, mistakes: Mapping[int, str] | None = None, setting: str = ""):
        heard.append(_Asked(truth, mistakes or {}, setting))
        return judges.right("")

    def check_function(_function: object, truth: Callable, settings, mistakes: Mapping[str, Callable] | None = None):
        for setting in settings:
            known = {mistaken(**setting): hint for hint, mistaken in (mistakes or {}).items()}
            check(None, truth(**setting), known, _shown(setting))
        return judges.right("")

    def first_wrong(_function: object, settings, judge: Callable):
        for setting in settings:
            judge(-1, **setting)
            heard[-1] = heard[-1]._replace(setting=_shown(setting))

    with contextlib.ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            for deaf in (check, check_function, first_wrong):
                if name.startswith("utils.exercises.") and hasattr(module, deaf.__name__):
                    stack.enter_context(patch.object(module, deaf.__name__, deaf))
        yield heard


def _shown(setting: Mapping[str, object]) -> str:
    return ", ".join(
        f"{name}={value:,d}" if type(value) is int else f"{name}={value}" for name, value in setting.items()
    )

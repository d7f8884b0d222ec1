"""Stores the judges of exercises that ask for numbers, for pages without Python: `python -m tools.page_judges`.

Writes book/page_judges.json: for each such exercise what a judge compares each number with, which wrong answers it
knows, and what it says. An exercise is there only if a page that has these can say in every case what the judge says.
"""

import json
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import nbformat

from tools.answers import Exercise, _Asked, _imports, _listening, _parts, exercises
from tools.needed_cells import Running
from tools.whole_files import write_whole
from utils.exercises.judge import check

STORED = Path(__file__).resolve().parent.parent / "book" / "page_judges.json"
OF_THE_READERS_OWN = "8."  # the last chapter's are about whatever model a reader has
NOT_YET = "ot yet: "
PROBES = (0, 1)


def judged(exercise: Exercise, chapter: Running) -> dict[str, Any] | None:
    """What a page needs to judge an exercise; None where it asks for something else than numbers."""
    names = _parts(exercise.cell.source)
    if not names or exercise.number.startswith(OF_THE_READERS_OWN):
        return None
    chapter.run_before(exercise.cell.id)
    chapter.value_of("\n".join([*_imports(exercise.cell.source), "None"]))
    with _listening() as asked:
        try:
            chapter.value_of(_with(exercise.cell.source, [-1] * len(names)))
        except Exception:  # it looks at answers itself
            return None
    if len(asked) != len(names) or any(one.setting for one in asked):
        return None
    truths = [one.truth for one in asked]
    verdict = chapter.value_of(_with(exercise.cell.source, truths))
    fields = [
        _field(name, one, _said(exercise, chapter, truths, i, -1)) for i, (name, one) in enumerate(zip(names, asked))
    ]
    found = {"cell": exercise.cell.id, "fields": fields, "right": repr(verdict)}
    return found if verdict and _agrees(exercise, chapter, found, asked) else None


def _field(name: str, asked: _Asked, said: str) -> dict[str, Any]:
    """What a page needs of one number: `says` is what stands before what is wrong with it."""
    before, not_yet, _ = said.partition(NOT_YET)
    mistakes = {str(n): hint for n, hint in asked.mistakes.items() if n != asked.truth}
    return {"name": name, "truth": asked.truth, "mistakes": mistakes, "says": f"{before}{not_yet}"}


def _with(source: str, answers: list[int]) -> str:
    """The cell with numbers in place of its Nones, in order."""
    head, *tails = source.split("None")
    return head + "".join(f"{answer}{tail}" for answer, tail in zip(answers, tails, strict=True))


def _said(exercise: Exercise, chapter: Running, truths: list[int], place: int, answer: int) -> str:
    """What the judge says where one number is wrong, those before it are right, and those behind it too."""
    answers = [*truths[:place], answer, *truths[place + 1 :]]
    return repr(chapter.value_of(_with(exercise.cell.source, answers)))


def reply(field: dict[str, Any], answer: int) -> str:
    """What a page says of a wrong number, as exercises.js does."""
    mistakes = {int(n): hint for n, hint in field["mistakes"].items()}
    return field["says"] + check(answer, field["truth"], mistakes).text.partition(NOT_YET)[2]


def _agrees(exercise: Exercise, chapter: Running, found: dict[str, Any], asked: list[_Asked]) -> bool:
    """Whether the page would say what the judge says, of each mistake that it knows, and of two that it does not."""
    truths = [one.truth for one in asked]
    for place, (field, one) in enumerate(zip(found["fields"], asked)):
        for answer in (*list(one.mistakes)[:2], *PROBES, one.truth + 1):
            if answer != one.truth and reply(field, answer) != _said(exercise, chapter, truths, place, answer):
                return False
    return True


def all_judged() -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Each exercise's number, with what a page needs of it or None."""
    for path, group in groupby(exercises(), key=lambda exercise: exercise.notebook):
        chapter = Running(nbformat.read(path, as_version=4))
        for exercise in group:
            found = judged(exercise, chapter)
            yield exercise.number, found and {"chapter": path.stem} | found


def main() -> None:
    """Write the file."""
    found = {}
    for number, one in all_judged():
        print(f"{number}: {'judged on the page' if one else 'in JupyterLab'}", flush=True)
        if one:
            found[number] = one
    write_whole(STORED, json.dumps(found, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())

"""The judges that pages without Python have: each is what its exercise's judge does now, and stands below its cell."""

import html
import json
import re

import nbformat
import pytest
from places import ROOT

from book.extensions.exercises import form_of, judging_cells
from tools.answers import exercises
from tools.needed_cells import Running
from tools.page_judges import STORED, judged, reply

JUDGES = json.loads(STORED.read_text(encoding="utf-8"))
BY_NUMBER = {exercise.number: exercise for exercise in exercises()}


@pytest.mark.long
@pytest.mark.parametrize("number", ["0.4", "1.2", "3.1"])
def test_what_is_stored_is_what_the_judge_does_now(number):
    """Where it is not any more: python -m tools.page_judges."""
    exercise = BY_NUMBER[number]
    found = judged(exercise, Running(nbformat.read(exercise.notebook, as_version=4)))
    assert json.loads(json.dumps({"chapter": exercise.notebook.stem} | found)) == JUDGES[number]


@pytest.mark.long
@pytest.mark.parametrize("number", ["0.2", "0.3", "1.5"])
def test_an_exercise_that_asks_for_something_else_has_no_judge_on_the_page(number):
    exercise = BY_NUMBER[number]
    assert judged(exercise, Running(nbformat.read(exercise.notebook, as_version=4))) is None
    assert number not in JUDGES


def test_each_is_of_an_exercise_that_there_is_and_asks_for_as_many_numbers():
    assert len(JUDGES) >= 10
    for number, judge in JUDGES.items():
        exercise = BY_NUMBER[number]
        assert (judge["chapter"], judge["cell"]) == (exercise.notebook.stem, exercise.cell.id)
        assert exercise.cell.source.count("None") == len(judge["fields"])
        assert judge["right"].startswith("Right: ")


def test_a_reply_is_in_the_judges_words():
    field = {
        "name": "answer",
        "truth": 1024,
        "mistakes": {"512": "One is missing."},
        "says": "After forward: not yet: ",
    }
    assert reply(field, 512) == (
        "After forward: not yet: 512 bytes is too few, about 0.5 times the right answer. One is missing."
    )


def test_every_exercise_has_its_judging_cell():
    for path in sorted((ROOT / "chapters").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        found = {cells[place]["id"] for place in judging_cells(cells)}
        assert found == {exercise.cell.id for exercise in BY_NUMBER.values() if exercise.notebook == path}


def test_the_form_has_a_field_for_each_number_and_the_judge_beside_it():
    judge = JUDGES["1.2"]
    form = form_of(judge)
    assert form.count("<input") == 2
    assert re.findall(r"<span>(\w+) =</span>", form) == ["after_forward", "after_backward"]
    stored = json.loads(html.unescape(re.search(r'data-judge="([^"]+)"', form)[1]))
    assert stored == {"fields": judge["fields"], "right": judge["right"]}

"""The teachers' page: its times, its sections and exercises, and what judges say of wrong answers."""

import re

import nbformat
import pytest
from nbformat import v4
from places import ROOT

from book.extensions.chapters import opening
from tools import answers, teachers
from tools.class_sessions import MOST_MINUTES, PLANS
from tools.needed_cells import Running
from tools.reading_time import DETOUR, minutes_by_section, reading
from tools.tested import TESTED
from tools.wrong_answers import REACH, WRONG, Wrong

TEXT = teachers.PAGE.read_text(encoding="utf-8")
SESSIONS = [(f"{name}, {number}", one) for name, plan in PLANS.items() for number, one in enumerate(plan, start=1)]
EXERCISES = [one.number for one in answers.exercises()]


def read(path):
    return nbformat.reads(path.read_text(encoding="utf-8"), as_version=nbformat.NO_CONVERT)


def test_the_page_begins_as_the_tool_writes_it():
    assert TEXT.startswith(teachers.told()), "run python -m tools.teachers"


@pytest.mark.long
@pytest.mark.sampled(9, slow=True)
@pytest.mark.parametrize("path", teachers.chapters(), ids=lambda path: path.stem)
def test_what_it_says_of_a_chapters_exercises_is_what_the_judges_say(path):
    assert teachers.of_chapter(path) in TEXT, "run python -m tools.teachers"


def test_the_page_has_nothing_else():
    title = "|".join(re.escape(opening(path).title) for path in teachers.chapters())
    parts = re.split(rf"(?=\n### Chapter (?:{title})\n)", TEXT)
    assert [parts[0], len(parts) - 1] == [teachers.told(), len(teachers.chapters())]


# ---------------------------------------------------------------------------------------------------------------- times


@pytest.mark.parametrize("path", teachers.chapters(), ids=lambda path: path.stem)
def test_the_sections_of_a_chapter_add_up_to_the_minutes_that_it_states(path):
    sections = minutes_by_section(read(path)).items()
    minutes = sum(of_one for name, of_one in sections if not name.startswith(DETOUR))
    assert minutes == pytest.approx(reading(read(path)).exact_minutes)  # a sum in another order
    assert opening(path).minutes - 5 < minutes <= opening(path).minutes


@pytest.mark.parametrize(("name", "session"), SESSIONS)
def test_a_session_takes_what_its_sections_and_exercises_take(name, session):
    of_sections = {number: minutes for number, (_, minutes) in teachers.section_minutes().items()}
    added = sum(of_sections[number] for number in session.sections.split()) + 8 * len(session.exercises.split())
    minutes = session.minutes(of_sections)
    assert minutes % 5 == 0
    assert minutes - 5 < added <= minutes <= MOST_MINUTES
    assert f"**{session.title}**: {minutes} minutes." in TEXT


@pytest.mark.parametrize(("name", "session"), SESSIONS)
def test_a_session_names_each_section_and_exercise_once(name, session):
    named = session.exercises.split() + session.at_home.split()
    assert set(named) <= set(EXERCISES)
    assert len(named) == len(set(named))
    sections = session.sections.split()
    assert sections == sorted(set(sections), key=lambda number: [int(part) for part in number.split(".")])


@pytest.mark.parametrize(("plan", "n"), [("One session", 1), ("Four sessions", 4), ("Eight sessions", 8)])
def test_a_plan_goes_forward_and_repeats_nothing(plan, n):
    assert len(PLANS[plan]) == n
    sections = [[int(part) for part in number.split(".")] for one in PLANS[plan] for number in one.sections.split()]
    assert sections == sorted(sections)
    named = [number for one in PLANS[plan] for number in (one.exercises.split() + one.at_home.split())]
    assert len(named) == len(set(named))


def test_eight_sessions_set_every_exercise():
    named = {number for one in PLANS["Eight sessions"] for number in (one.exercises.split() + one.at_home.split())}
    assert named == set(EXERCISES)


def test_a_cell_with_several_headings_is_divided_among_them():
    cells = [v4.new_markdown_cell("# 9. Title\n\n" + "word " * 149), v4.new_code_cell("import math")]
    cells += [
        v4.new_markdown_cell("end " * 150 + "\n\n## 9.1 One\n\n" + "word " * 299 + "\n\n## 9.2 Two\n\n" + "word " * 149)
    ]
    cells += [v4.new_code_cell("import this", outputs=[v4.new_output("stream", text="1")])]
    cells += [v4.new_markdown_cell("## Exercises\n\n" + "word " * 900)]
    found = minutes_by_section(v4.new_notebook(cells=cells))
    assert found == {"": 2.0, "9.1 One": 2.0, "9.2 Two": 1.5}


# ------------------------------------------------------------------------------------------------------------ exercises


def test_every_exercise_says_what_it_tests_and_where():
    assert list(TESTED) == EXERCISES
    sections = teachers.section_minutes()
    assert not {number for _, where in TESTED.values() for number in where.split(", ")} - set(sections)


def test_every_exercise_has_wrong_answers_on_the_page():
    parts = re.split(r"^Exercise \d of chapter \d[a-z]?, ", TEXT, flags=re.MULTILINE)[1:]
    assert len(parts) == len(EXERCISES)
    assert all(len(re.findall(r"^\| ", part.split("\n\n")[1], re.MULTILINE)) > 1 for part in parts)
    assert set(WRONG) | set(REACH) | answers.OF_THE_READERS_MODEL <= set(EXERCISES)


@pytest.fixture(scope="module")
def first():
    """Exercise 1 of chapter 0, and its chapter."""
    exercise = next(one for one in answers.exercises() if one.number == "0.1")
    return exercise, Running(read(exercise.notebook))


def test_a_right_answer_is_refused(first, monkeypatch):
    exercise, chapter = first
    monkeypatch.setitem(WRONG, "0.1", [Wrong("the truth", "answer = None", "answer = 48 * 4 * 512")])
    with pytest.raises(ValueError, match=r"the truth must be a wrong answer to exercise 0\.1: got Right"):
        answers.replies(exercise, chapter)


def test_an_edit_that_does_not_fit_the_cell_is_refused(first, monkeypatch):
    exercise, chapter = first
    monkeypatch.setitem(WRONG, "0.1", [Wrong("anything", "reply = None", "reply = 1")])
    with pytest.raises(ValueError, match="must have 'reply = None' once in its cell exercise-vectors"):
        answers.replies(exercise, chapter)


def test_what_a_judges_table_says_is_what_the_judge_says(first):
    """Each number of the page, given as an answer, brings the sentence beside it."""
    exercise, chapter = first
    found = answers.replies(exercise, chapter)
    assert len(found) == 7
    for reply in found:
        source = exercise.cell.source.replace("None", reply.answer.replace(",", ""))
        assert repr(chapter.value_of(source)).endswith(reply.says)


def test_several_numbers_are_told_apart():
    assert answers._parts("a = None\nb = None\nf(a, b)") == ["a", "b"]
    assert answers._parts('answer = {"x": None, "y": None}\nf(answer)') == ["x", "y"]
    assert "| `allocated`: 17,991,680 |" in TEXT
    assert "| `reserved`: " in TEXT


def test_marks_of_markdown_are_letters():
    assert teachers._cell("a_b | c* `d_e` [f]\n g") == r"a\_b \| c\* `d_e` \[f\] g"


def test_the_page_is_linked():
    index = (ROOT / "book" / "index.md").read_text(encoding="utf-8")
    assert "](teachers.md)" in index
    assert "](quiz.ipynb)" in index
    assert "\nteachers\nquiz\n" in index
    assert "](quiz.ipynb)" in TEXT

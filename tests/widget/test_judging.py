"""A choice on which the verdict alone depends: one account has the verdicts of all its options."""

import json
import re

import pytest

from every_byte.formula.formula import Formula, Term
from every_byte.gpu.capacity import Fit
from every_byte.widget import Account, Control, Explorer, Timeline
from every_byte.widget.pages import key_of, script_of

TIMELINE = Timeline({"activations": [5, 9, 2]}, [10, 20, 20], [1, 4, 6], 6, [("forward", 0, 2)], 1)
SETTINGS = {"default": "", "expandable": "expandable_segments:True"}


def verdict(settings) -> Fit:
    return Fit("a100-80gb", 85_097_971_712, 587_202_560, 1 << 30, 0, "" if settings else "step 1", settings)


def make(measure=None, settings_seen=None, asked=None):
    def account(settings):
        (settings_seen if settings_seen is not None else []).append(settings)
        return Account(
            {"x": settings["n"]},
            device="a100-80gb",
            timeline=TIMELINE,
            judge=lambda option: verdict((asked if asked is not None else []).append(option) or option),
        )

    return Explorer(
        title="Judged",
        controls=[
            Control.range("n", "number", 1, 8, value=2, log=True),
            Control.choice("allocator", "allocator", SETTINGS, judges=True),
        ],
        formula=lambda settings: Formula("judged", (Term("x", "n", 1),)),
        measure=measure or account,
    )


def test_neither_the_formula_nor_the_account_sees_it():
    seen = []
    explorer = make(settings_seen=seen)
    start = {"n": 2, "allocator": ""}
    answers = [explorer.answer_at(start | {"allocator": settings}) for settings in SETTINGS.values()]
    assert answers[0] == answers[1]
    assert seen == [{"n": 2}, {"n": 2}]
    assert explorer.predict(start) == explorer.predict(start | {"allocator": SETTINGS["expandable"]}) == {"x": 2}


def test_a_move_waits_for_no_verdict_and_a_rest_asks_for_the_chosen_one_alone():
    asked = []
    explorer = make(asked=asked)
    explorer._heard({"request": 1, "settings": {"n": 4, "allocator": "default"}})
    assert (explorer.answer["terms"], explorer.answer["fit"], explorer.answer["fit_with"], asked) == (
        {"x": 4},
        None,
        {},
        [],
    )
    explorer._heard({"request": 2, "settings": {"n": 4, "allocator": "expandable"}, "judge": True})
    assert (explorer.answer["request"], explorer.answer["terms"], explorer.answer["fit"]) == (2, {"x": 4}, None)
    assert explorer.answer["fit_with"]["expandable"]["fits"] is True
    explorer._heard({"request": 3, "settings": {"n": 4, "allocator": "default"}, "judge": True})
    assert (explorer.answer["fit"]["fits"], list(explorer.answer["fit_with"])) == (False, ["expandable"])
    explorer._heard({"request": 4, "settings": {"n": 4, "allocator": "default"}, "judge": True})
    assert asked == [SETTINGS["expandable"], ""]


def test_a_verdict_of_a_setting_that_is_not_answered_begins_with_its_account():
    explorer = make()
    explorer._heard({"request": 1, "settings": {"n": 4, "allocator": "default"}})
    explorer._heard({"request": 2, "settings": {"n": 8, "allocator": "default"}, "judge": True})
    assert (explorer.answer["settings"]["n"], explorer.answer["terms"], explorer.answer["fit"]) == (8, {"x": 8}, None)


def test_a_verdict_that_fails_is_a_sentence():
    def judge(option):
        raise ValueError("the last step must be steady.")

    explorer = make(lambda settings: Account({"x": settings["n"]}, judge=judge))
    setting = {"n": 4, "allocator": "default"}
    explorer._heard({"request": 1, "settings": setting})
    explorer._heard({"request": 2, "settings": setting, "judge": True})
    assert explorer.answer["error"] == "the last step must be steady."
    assert (explorer.answer["terms"], explorer.answer["request"]) == (None, 2)
    explorer._heard({"request": 3, "settings": setting, "judge": True})
    assert explorer.answer["error"] == "the last step must be steady."
    explorer.n = 4
    assert "the last step must be steady." in repr(explorer.table())
    assert "the last step must be steady." in repr(explorer.table())


def test_the_answer_is_taken_once_and_the_table_says_the_chosen_verdict():
    seen = []
    explorer = make(settings_seen=seen)
    assert "Does not fit on a100-80gb: " in repr(explorer.table())
    assert "allocator" not in repr(explorer.table()).split("\n")[0]
    explorer.allocator = SETTINGS["expandable"]
    text = repr(explorer.table())
    assert "Fits on a100-80gb with expandable_segments:True: " in text
    assert text.startswith("Judged: n = 2, allocator = expandable")
    assert "The peak is of allocator default." in text
    assert len(seen) == 1
    explorer.n = 4
    explorer.table()
    assert len(seen) == 2


def test_a_page_stores_one_account_for_all_options():
    explorer = make()
    settings = [{"n": n, "allocator": settings} for n in (1, 2) for settings in SETTINGS.values()]
    assert {key_of(explorer, one) for one in settings} == {"1|default", "2|default"}
    text = script_of("judged", explorer, settings[::2])
    data = json.loads(re.search(r"\{.*\}", text)[0])
    assert data["answers"]["1|default"]["fit_with"]["expandable"]["fits"] is True
    assert data["answers"]["1|default"]["fit"]["fits"] is False
    assert data["spec"]["controls"][1]["judges"] is True


def test_an_account_judges_where_there_is_a_choice_and_only_there():
    answer = make(lambda settings: Account({"x": 2}, fit=verdict(""))).answer_at({"n": 2, "allocator": ""})
    assert "judge must give the verdict for each option of a choice that judges" in answer["error"]
    assert "got judge=None and the choice 'allocator'" in answer["error"]
    measured = make(lambda settings: Account({"x": 2}, origin="measured")).answer_at({"n": 2, "allocator": ""})
    assert (measured["error"], measured["fit_with"]) == ("", None)


def test_it_selects_nothing_and_is_no_letter():
    with pytest.raises(ValueError, match=r"a choice that judges is of the verdict alone: got 'x'"):
        Control.choice("x", "x", ["a", "b"], judges=True, selects=True)
    with pytest.raises(ValueError, match=r"a choice that judges is of the verdict alone"):
        Control.choice("x", "x", ["a", "b"], judges=True, letter="e", letters={"a": 1, "b": 2})

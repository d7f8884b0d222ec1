"""What a page without a kernel gets: each stored account is the one that the explorer gives, timelines included."""

import itertools
import json

import pytest

from every_byte.formula.formula import Formula, Term
from every_byte.widget import Account, Control, Explorer, Timeline
from every_byte.widget.pages import differences, key_of, script_of
from every_byte.widget.scripts import one_script

TIMELINE = Timeline(
    {"activations": [5, 9, 2], "slack": [0, 512, 512]}, [10, 20, 20], [1, 4, 6], 6, [("forward", 0, 2)], 1
)


def small(measure) -> Explorer:
    controls = [Control.range("n", "number", 1, 8, value=2, log=True), Control.toggle("twice", "twice")]
    terms = {False: Term("once", "n", 4), True: Term("twice", "2*n", 4)}
    return Explorer(
        title="Small", controls=controls, formula=lambda s: Formula("small", (terms[s["twice"]],)), measure=measure
    )


def accounted(settings) -> Account:
    name = "twice" if settings["twice"] else "once"
    return Account({name: 4 * settings["n"] * (1 + settings["twice"])}, device="a100-80gb", timeline=TIMELINE)


def data_of(text: str) -> tuple[str, dict]:
    assert text.startswith("everyByte.explorer(")
    assert text.endswith(");\n")
    return tuple(json.loads(f"[{text.removeprefix('everyByte.explorer(').removesuffix(');' + chr(10))}]"))


def test_answers_are_those_of_the_explorer():
    explorer = small(accounted)
    settings = [{"n": n, "twice": twice} for n in (1, 3, 8) for twice in (False, True)]
    name, data = data_of(script_of("small", explorer, settings))
    assert name == "small"
    assert data["value"] == {"n": 2, "twice": "off"}
    assert data["spec"] == json.loads(json.dumps(explorer.spec))
    assert list(data["answers"]) == ["1|off", "1|on", "3|off", "3|on", "8|off", "8|on"]
    for one in settings:
        stored, answer = data["answers"][key_of(explorer, one)], explorer.answer_at(one)
        assert stored["terms"] == answer["terms"]
        assert "error" not in stored  # what all have in common is said once
        assert data["shared"]["badge"] == f"{answer['badge']}; stored with this page"
        again = {name: list(itertools.accumulate(numbers)) for name, numbers in stored["timeline"]["columns"].items()}
        assert again == TIMELINE.columns
        for name in ("reserved", "places"):
            assert list(itertools.accumulate(stored["timeline"][name])) == getattr(TIMELINE, name)
        assert stored["timeline"]["peak"] == 1
    assert explorer.value == {"n": 2, "twice": False}


def test_a_key_leaves_out_what_has_no_effect():
    controls = [Control.toggle("many", "many"), Control.range("n", "number", 1, 8, value=2, when={"many": ["on"]})]
    formula = Formula("", (Term("t", "n", 1),))
    explorer = Explorer(title="", controls=controls, formula=lambda s: formula, measure=accounted)
    keys = [key_of(explorer, {"many": many, "n": n}) for many in (False, True) for n in (2, 5)]
    assert keys == ["off|2", "off|2", "on|2", "on|5"]


def test_a_key_follows_the_order_of_the_controls():
    assert key_of(small(accounted), {"twice": True, "n": 3}) == "3|on"


def test_an_account_that_fails_is_stored_as_its_sentence():
    def measure(settings):
        if settings["n"] > 4:
            raise ValueError("n is too large: try 4.")
        return accounted(settings)

    _, data = data_of(script_of("small", small(measure), [{"n": n, "twice": False} for n in (1, 2, 8)]))
    assert data["answers"]["8|off"] == {"terms": None, "origin": "", "badge": "", "error": "n is too large: try 4."}


def test_differences_add_up():
    assert differences([5, 9, 2]) == [5, 4, -7]
    assert differences([]) == []


def test_the_script_is_no_module():
    text = one_script()
    assert text.startswith("(() => {")
    assert "everyByte = {" in text
    for line in text.splitlines():
        assert not line.startswith(("import ", "export ")), line


def test_a_setting_that_a_control_refuses():
    with pytest.raises(ValueError, match=r"n \(number\) must be a whole number from 1 to 8: got n=9; nearest: 8\."):
        script_of("small", small(accounted), [{"n": 9, "twice": False}])

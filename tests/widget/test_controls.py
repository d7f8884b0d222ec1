"""What an explorer is declared with: controls, and the accounts that its measure returns."""

import pytest

from every_byte.formula.formula import Formula, Term
from every_byte.widget import Account, Control, Explorer
from every_byte.widget.settings import in_effect


@pytest.mark.parametrize(
    ("make_control", "message"),
    [
        (lambda: Control.range("b", "batch", 1, 64, value=65), "nearest: 64"),
        (lambda: Control.range("b", "batch", 0, 64, value=1, log=True), "a log scale starts at 1 or above"),
        (lambda: Control.range("b", "batch", 1, 4, value=1, step=0), "step must be from 1 to maximum - minimum"),
        (lambda: Control.choice("a", "a", []), "at least one option"),
        (lambda: Control.choice("a", "a", ["x"], letter="e"), "letter and letters go together"),
        (lambda: Control.choice("a", "a", ["x"], letter="e", letters={"y": 1}), "a number to each option"),
        (lambda: Control.choice("a", "a", ["x"], value="y"), "must be one of 'x'"),
    ],
)
def test_a_control_that_cannot_work_is_refused_when_it_is_made(make_control, message):
    with pytest.raises(ValueError, match=message):
        make_control()


def test_a_log_slider_stops_at_powers_of_two_that_may_be_set():
    assert Control.range("s", "s", 128, 1000, value=128, log=True).stops() == [128, 256, 512, 1000]
    assert Control.range("s", "s", 3, 20, value=3, step=5, log=True).stops() == [3, 8, 18]
    assert Control.range("s", "s", 0, 8, value=0).stops() is None


def test_a_choice_may_be_a_letter_select_a_formula_or_both():
    ranks = {"1": 1, "8": 8}
    letter = Control.choice("t", "ranks", ranks, letter="t", letters=ranks)
    both = Control.choice("t", "ranks", ranks, letter="t", letters=ranks, selects=True)
    plain = Control.choice("t", "ranks", ranks)
    assert [c.options for c in (letter, both, plain)] == [None, [1, 8], [1, 8]]
    assert [c.letters(8) for c in (letter, both, plain)] == [{"t": 8}, {"t": 8}, {}]
    assert [c.spec()["selects"] for c in (letter, both, plain)] == [False, True, True]


def test_accounts_say_where_they_come_from():
    assert Account({}, "measured", "H200", "PyTorch 2.13").badge == "measured on H200, PyTorch 2.13"
    with pytest.raises(ValueError, match="origin must be one of simulated, measured, recorded: got origin='guessed'"):
        Account({}, "guessed")
    with pytest.raises(TypeError, match=r"terms must hold bytes as int: got terms\['input'\]=1.5"):
        Account({"input": 1.5})


def with_idle(**when_of_n) -> Explorer:
    controls = [
        Control.choice("kind", "kind", ["plain", "in pieces", "in n pieces"]),
        Control.range("n", "pieces", 1, 8, value=2, when=when_of_n),
    ]
    return Explorer(title="", controls=controls, formula=lambda s: Formula("", (Term("t", "n", 1),)), measure=None)


def test_a_control_without_effect_stands_where_it_starts():
    explorer = with_idle(kind=["in n pieces"])
    assert in_effect(explorer.controls, {"kind": "in pieces", "n": 7}) == {"kind": "in pieces", "n": 2}
    assert in_effect(explorer.controls, {"kind": "in n pieces", "n": 7}) == {"kind": "in n pieces", "n": 7}
    assert [control["when"] for control in explorer.spec["controls"]] == [{}, {"kind": ["in n pieces"]}]


@pytest.mark.parametrize("when", [{"kind": ["in m pieces"]}, {"kid": ["plain"]}, {"n": ["1"]}])
def test_where_a_control_has_an_effect_must_be_an_option(when):
    with pytest.raises(ValueError, match="when of 'n' must name options of"):
        with_idle(**when)


def test_a_capacity_is_a_number_or_one_for_each_option():
    def spec(capacity):
        controls = [Control.choice("gpu", "GPU", ["small", "large"])]
        formula = Formula("", (Term("t", "3", 1),))
        return Explorer(title="", controls=controls, formula=lambda s: formula, measure=None, capacity=capacity).spec

    assert spec(None)["capacity"] is None
    assert spec(7)["capacity"] == {"symbol": None, "bytes": 7}
    assert spec(("gpu", {"small": 1, "large": 2}))["capacity"] == {"symbol": "gpu", "bytes": {"small": 1, "large": 2}}
    for wrong in (("gpu", {"small": 1}), ("gpus", {"small": 1, "large": 2})):
        with pytest.raises(ValueError, match="capacity must give bytes to each option of a choice, in order"):
            spec(wrong)
    parts = {"one": Formula("", (Term("t", "3", 1),))}
    with pytest.raises(ValueError, match="capacity is for stages, one after the other: got parts=True"):
        Explorer(title="", controls=[], formula=lambda s: parts, measure=None, parts=True, capacity=7)


def test_a_truth_is_no_number():
    with pytest.raises(ValueError, match=r"b \(batch\) must be a whole number from 1 to 9: got b=True; try 2"):
        Control.range("b", "batch", 1, 9, value=2).check(True)

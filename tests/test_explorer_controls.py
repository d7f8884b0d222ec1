"""What an explorer is declared with: controls, and the accounts that its measure returns."""

import pytest

from utils.explorers import Account, Control
from utils.explorers.account import sentence


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


def test_a_sentence_is_one_line_of_bounded_length():
    assert sentence(ValueError("  a\nb")) == "a"
    assert sentence(ValueError("x" * 1000)) == "x" * 399 + "…"
    assert sentence(ValueError("It is full. Free 3.5 bytes. " + "Or else" * 100)) == "It is full. Free 3.5 bytes."


def test_accounts_say_where_they_come_from():
    assert Account({}, "measured", "H200", "PyTorch 2.13").badge == "measured on H200, PyTorch 2.13"
    with pytest.raises(ValueError, match="origin must be one of simulated, measured, recorded: got origin='guessed'"):
        Account({}, "guessed")
    with pytest.raises(TypeError, match=r"terms must hold bytes as int: got terms\['input'\]=1.5"):
        Account({"input": 1.5})

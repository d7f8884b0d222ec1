"""What a reader is told about an answer, whatever the exercise."""

import pytest

from utils.exercises.judge import check, check_function, no_function, no_names, not_yet, of_part, right


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (1000, "Right: 1,000 bytes."),
        (None, "No answer yet: replace None with yours and run the cell again."),
        (1500, "Not yet: 1,500 bytes (1.46 KiB) is too many, about 1.5 times the right answer."),
        (900, "Not yet: 900 bytes is too few, though close: within a tenth. The mask is missing."),
        (5, "Not yet: 5 bytes is far too few."),
        (
            1000.0,
            "Not yet: the number is right, but bytes are a whole number, an int: got 1000.0. "
            "Use // instead of / where nothing is left over.",
        ),
        ("9", "Not yet: bytes are a whole number, an int: got '9'."),
        (1001, "Not yet: 1,001 bytes is too many, though close: within a hundredth."),
    ],
)
def test_check(answer, reply):
    assert str(check(answer, 1000, {900: "The mask is missing."})) == reply


@pytest.mark.parametrize(
    ("function", "reply"),
    [
        (lambda b: 9 * b, "Right: your function agrees to the byte in all 2 settings."),
        (lambda b: None, "For b=1: no answer yet: replace None with yours and run the cell again."),
        (lambda b: 9, "For b=2: not yet: 9 bytes is too few, about 0.5 times the right answer."),
        (
            lambda b: 8 * b,
            "For b=1: not yet: 8 bytes is too few, about 0.89 times the right answer. One is missing.",
        ),
        (
            lambda b: b // 0,
            "Not yet: for b=1 your function raised ZeroDivisionError: integer division or modulo by zero",
        ),
    ],
)
def test_check_function(function, reply):
    mistakes = {"One is missing.": lambda b: 8 * b}
    verdict = check_function(function, lambda b: 9 * b, [{"b": 1}, {"b": 2}], mistakes)
    assert str(verdict).startswith(reply)
    assert bool(verdict) == reply.startswith("Right")


def test_what_is_no_function():
    assert no_function(len) is None
    assert str(no_function(None)).startswith("No answer yet")
    assert str(no_function(3)) == "Not yet: pass your function itself: got 3."


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (["a", "b, c"], None),
        ({"a"}, None),
        ([], None),
        (None, "No answer yet: replace None with yours and run the cell again."),
        ("a", "Not yet: the answer is a list of names: got 'a'."),
        (["a", 4], "Not yet: the answer is a list of names: got ['a', 4]."),
        (4, "Not yet: the answer is a list of names: got 4."),
        (["a", "b"], "Not yet: 'b' is none of a; b, c."),
    ],
)
def test_what_is_no_list_of_names(answer, reply):
    verdict = no_names(answer, ("a", "b, c"))
    assert (None if verdict is None else str(verdict)) == reply


def test_a_part_of_an_answer():
    verdict = of_part("After forward", not_yet("too few."))
    assert (str(verdict), bool(verdict)) == ("After forward: not yet: too few.", False)
    assert not of_part("After forward", right("12.")), "what is right is not said of a part"

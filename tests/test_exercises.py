"""What a reader is told about an answer."""

import pytest

from utils.exercises import check, check_function


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (1000, "Right: 1,000 bytes."),
        (None, "No answer yet: put yours in place of None and run the cell again."),
        (1500, "Not yet: 1,500 bytes (1.46 KiB) is 500 bytes too many, 1.5 times the right answer."),
        (900, "Not yet: 900 bytes is 100 bytes too few, 0.9 times the right answer. The mask is missing."),
        (1000.0, "Not yet: bytes are whole numbers, an int: got 1000.0. If you divided, use // where nothing is left."),
        ("1000", "Not yet: bytes are whole numbers, an int: got '1000'. If you divided, use // where nothing is left."),
    ],
)
def test_check(answer, reply, capsys):
    check(answer, 1000, {900: "The mask is missing."})
    assert capsys.readouterr().out == reply + "\n"


@pytest.mark.parametrize(
    ("function", "reply"),
    [
        (lambda b: 9 * b, "Right: your function agrees to the byte in all 2 settings."),
        (lambda b: None, "For b=1: no answer yet: put yours in place of None and run the cell again."),
        (lambda b: 9, "For b=2: not yet: 9 bytes is 9 bytes too few, 0.5 times the right answer."),
        (
            lambda b: 8 * b,
            "For b=1: not yet: 8 bytes is 1 byte too few, 0.8889 times the right answer. One is missing.",
        ),
        (
            lambda b: b // 0,
            "Not yet: for b=1 your function raised ZeroDivisionError: integer division or modulo by zero",
        ),
    ],
)
def test_check_function(function, reply, capsys):
    check_function(function, lambda b: 9 * b, [{"b": 1}, {"b": 2}], {"One is missing.": lambda b: 8 * b})
    assert capsys.readouterr().out.startswith(reply)

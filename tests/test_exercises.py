"""What a reader is told about an answer."""

import pytest

from utils.exercises import mlp
from utils.exercises.judge import check, check_function
from utils.formulas import Formula, Selector, Term


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (1000, "Right: 1,000 bytes."),
        (None, "No answer yet: put yours in place of None and run the cell again."),
        (1500, "Not yet: 1,500 bytes (1.46 KiB) is 500 bytes too many, 1.5 times the right answer."),
        (900, "Not yet: 900 bytes is 100 bytes too few, 0.9 times the right answer. The mask is missing."),
        (5, "Not yet: 5 bytes is 995 bytes too few."),
        (
            1000.0,
            "Not yet: the number is right, but bytes are whole numbers, an int: got 1000.0. "
            "Use // instead of / where nothing is left over.",
        ),
        ("9", "Not yet: bytes are whole numbers, an int: got '9'. Use // instead of / where nothing is left over."),
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


BSD_1, BSD_2 = 8 * 2048 * 4096, 2 * 4096 * 1024


@pytest.mark.parametrize(
    ("exercise", "answer", "reply"),
    [
        (mlp.by_hand, 19 * BSD_1, "Right: 1,275,068,416 bytes"),
        (mlp.by_hand, 18 * BSD_1, "You left the mask out."),
        (mlp.by_hand, 20 * BSD_1, "takes one byte, not two."),
        (mlp.by_hand, None, "No answer yet"),
        (mlp.freezing, 8 * BSD_2, "Right: 67,108,864 bytes"),
        (mlp.freezing, 16 * BSD_2, "GELU need not keep its input."),
        (mlp.freezing, 10 * BSD_2, "Only the weight of `up` needs x"),
        (mlp.freezing, None, "No answer yet"),
        (mlp.packed_mask, lambda b, s, d, e: 5 * b * s * d * e + (b * s * d + 7) // 8, "Right: your function agrees"),
        (mlp.packed_mask, lambda b, s, d, e: 5 * b * s * d * e + b * s * d // 8, "Round up"),
        (mlp.packed_mask, lambda b, s, d, e: 5 * b * s * d * e + b * s * d, "a byte for each element"),
        (mlp.packed_mask, lambda b, s, d, e: None, "no answer yet"),
        (mlp.gated, lambda b, s, d, w, e: (d + 4 * w) * b * s * e, "Right: your function agrees"),
        (mlp.gated, lambda b, s, d, w, e: (2 * d + 4 * w) * b * s * e, "is x counted twice, or the output"),
        (mlp.gated, lambda b, s, d, w, e: (d + 3 * w) * b * s * e, "keeps both its factors"),
        (mlp.gated, lambda b, s, d, w, e: None, "no answer yet"),
    ],
)
def test_chapter_two(exercise, answer, reply, capsys):
    exercise(answer)
    assert reply in capsys.readouterr().out


def gated_terms(width="b*s*w", opened="self"):
    mm, mul = "MmBackward*", "MulBackward*"
    return (
        Term("input", "b*s*d", "e", (Selector("gate", mm, "self"), Selector("up", mm, "self"))),
        Term("gate", "b*s*w", "e", (Selector("*", "SiluBackward*", "self"),)),
        Term("opened gate", width, "e", (Selector("*", mul, opened),)),
        Term("value", "b*s*w", "e", (Selector("*", mul, "other"),)),
        Term("down input", "b*s*w", "e", (Selector("down", mm, "self"),)),
    )


@pytest.mark.parametrize(
    ("terms", "reply"),
    [
        (gated_terms(), "Right: all 5 terms agree to the byte in all 3 settings."),
        ((), "No terms yet"),
        (
            gated_terms("b*s*d"),
            "term 'opened gate': Not yet: 16,777,216 bytes (16 MiB) is 50,331,648 bytes (48 MiB) too few",
        ),
        (gated_terms()[:4], "no term of 'gated MLP' selects 67,108,864 bytes"),
        (gated_terms(opened="other"), "terms 'opened gate' and 'value' of 'gated MLP' both select"),
    ],
)
def test_the_formula_of_a_gated_mlp(terms, reply, capsys):
    mlp.gated_formula(Formula("gated MLP", terms))
    assert reply in capsys.readouterr().out

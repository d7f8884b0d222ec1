"""What a prediction's field takes for a number, where it finds the answer, and what it says of the difference."""

import pytest
from places import ROOT
from prediction_rules import answer_in

SOURCE = (ROOT / "book" / "_static" / "predictions.js").read_text(encoding="utf-8")
RESULT = """requested 13,630,976, allocated 13,630,976
requested 13,631,488, allocated 14,680,064, slack +1,048,576
ratio 0.75"""


@pytest.fixture(scope="module")
def of_page(page):
    page.add_script_tag(content=SOURCE + ";window.predictions = everyBytePredictions;")
    return page


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("8,519,680", 8_519_680),
        ("8_519_680 bytes", 8_519_680),
        ("1 000 000", 1_000_000),
        ("1.5 MiB", 1_572_864),
        ("2 KiB + 4", 2052),
        ("1/4 GiB", 2**28),
        ("2 MiB * 3", 6 * 2**20),
        ("18 * 8 * 2048 * 4096", 18 * 8 * 2048 * 4096),
        ("9×2·512", 9216),
        ("2^20 + 512", 2**20 + 512),
        ("2**10", 1024),
        ("(1 + 2) * 3 - 4", 5),
        ("-512", -512),
        ("−512", -512),
        ("3e6", 3_000_000),
        ("0.5", 0.5),
        ("", None),
        ("9 bsd", None),
        ("many", None),
        ("2 +", None),
        ("1 / 0", None),
    ],
)
def test_a_guess_is_read(of_page, typed, value):
    assert of_page.evaluate("typed => predictions.parse(typed)", typed) == value


@pytest.mark.parametrize(
    ("comment", "labels"),
    [
        (" predict: allocated: ", [("allocated", "allocated:", 1)]),
        (" predict: GELU = gelu: | ReLU = relu: @2 ", [("GELU", "gelu:", 1), ("ReLU", "relu:", 2)]),
        (" predict ", []),
        (" predict: ", []),
        (" predicted elsewhere ", None),
        (" a comment ", None),
    ],
)
def test_a_question_is_read(of_page, comment, labels):
    found = of_page.evaluate("comment => predictions.labelsOf(comment)", comment)
    expected = labels and [dict(zip(("name", "label", "nth"), one, strict=True)) for one in labels]
    assert found == expected


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("allocated", "13,630,976"),
        ("requested 13,631,488, allocated", "14,680,064"),
        ("requested 13,631,488, allocated @2", "+1,048,576"),
        ("ratio", "0.75"),
        ("peak", None),
        ("ratio @2", None),
    ],
)
def test_the_answer_is_the_number_behind_its_label_to_the_page_and_to_the_rules(of_page, label, value):
    find = "([result, label]) => predictions.answerIn(result, predictions.labelsOf(`predict: ${label}`)[0])"
    found = of_page.evaluate(find, [RESULT, label])
    assert found == (None if value is None else float(value.replace(",", "")))
    assert answer_in(RESULT, label) == value


@pytest.mark.parametrize(
    ("guess", "truth", "kind", "words"),
    [
        (512, 512, "exact", "exactly"),
        (500, 512, "near", "it is 512: off by 12, 2.3%"),
        (256, 512, "far", "it is 512: off by 256, 50%"),
        (4, 512, "far", "it is 512: 128 times what you said"),
        (2048, 512, "far", "it is 512: 4 times less than you said"),
        (5, 0, "far", "it is 0: off by 5"),
        (0, 512, "far", "it is 512: off by 512, 100%"),
        (-3, 3, "far", "it is 3: off by 6, 200%"),
        (None, 512, "unread", "a number was asked for, such as 8,192 or 2*4096 or 1.5 MiB"),
    ],
)
def test_the_difference_is_said(of_page, guess, truth, kind, words):
    assert of_page.evaluate("([a, b]) => predictions.compare(a, b)", [guess, truth]) == {"kind": kind, "words": words}


def test_a_table_s_rows_are_lines_of_text(of_page):
    table = "<table><tr><th>phase</th><th>bytes</th></tr><tr><td>forward</td><td>1,024</td></tr></table>"
    text = of_page.evaluate(
        "html => predictions.textOf(Object.assign(document.createElement('div'), { innerHTML: html }))", table
    )
    assert [line.split() for line in text.splitlines() if line.strip()] == [["phase", "bytes"], ["forward", "1,024"]]

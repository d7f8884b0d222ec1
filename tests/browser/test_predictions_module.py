"""What a prediction's field takes for a number, where it finds the answer, and what it says of the difference."""

import pytest
from places import ROOT
from prediction_rules import Asked, answer_in, asked

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
        ("3²", 9),
        ("9 bsd", None),
        ("9%", None),
        ("many", None),
        ("2 +", None),
        ("1 / 0", None),
    ],
)
def test_a_guess_is_read(of_page, typed, value):
    assert of_page.evaluate("typed => predictions.parse(typed)", typed) == value


@pytest.mark.parametrize(
    ("typed", "unit", "value"),
    [
        ("29.3", "GiB", 29.3),
        ("29.3 GiB", "GiB", 29.3),
        ("3/2 GiB", "GiB", 1.5),
        ("1536 MiB", "GiB", 1.5),
        ("2^30 bytes", "GiB", 1),
        ("9 GFLOP", "GiB", None),
        ("60", "%", 60),
        ("60%", "%", 60),
        ("60 percent", "%", 60),
        ("60 MiB", "%", None),
        ("30.06 GFLOP", "GFLOP", 30.06),
        ("30 GFLOPs", "GFLOP", 30),
        ("18 bsd", "bsd", 18),
        ("18 sbd", "bsd", None),
        ("48 bsd^2", "bsd²", 48),
        ("48 bsd²", "bsd²", 48),
        ("1.5 times", "times", 1.5),
        ("1 unit", "units", 1),
    ],
)
def test_a_guess_may_name_the_unit_that_it_is_asked_for_in(of_page, typed, unit, value):
    assert of_page.evaluate("([typed, unit]) => predictions.parse(typed, unit)", [typed, unit]) == value


@pytest.mark.parametrize(
    ("comment", "labels"),
    [
        (" predict: allocated: ", [("allocated", "allocated:", 1, "")]),
        (" predict: GELU = gelu: | ReLU = relu: @2 ", [("GELU", "gelu:", 1, ""), ("ReLU", "relu:", 2, "")]),
        (" predict: x[0] | more = n = 64: @2 [GiB] ", [("x[0]", "x[0]", 1, ""), ("more", "n = 64:", 2, "GiB")]),
        (" predict ", []),
        (" predict: ", []),
        (" predicted elsewhere ", None),
        (" a comment ", None),
    ],
)
def test_a_question_is_read(of_page, comment, labels):
    found = of_page.evaluate("comment => predictions.labelsOf(comment)", comment)
    assert found == (labels and [Asked(*one)._asdict() for one in labels])
    if labels:  # the rules read it as the page does, but for the colon that a name ends with
        read = [asked(one) for one in comment.partition(":")[2].split("|")]
        assert [one._replace(name=one.name.removesuffix(":")) for one in read] == [Asked(*one) for one in labels]


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
    assert answer_in(RESULT, asked(label)) == (value and (value, ""))


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


@pytest.mark.parametrize(
    ("guess", "unit", "words"),
    [
        (29, "GiB", "it is 30 GiB: off by 1, 3.3%"),
        (60, "%", "it is 30%: off by 30, 100%"),
        (10, "bsd", "it is 30 bsd: 3 times what you said"),
        (None, "%", "a number was asked for, such as 8 or 2*4 or 1.5%"),
    ],
)
def test_what_it_is_is_said_in_its_unit(of_page, guess, unit, words):
    assert of_page.evaluate("([a, unit]) => predictions.compare(a, 30, unit).words", [guess, unit]) == words


FORM = """([comment, kept]) => {
  const form = predictions.form(predictions.labelsOf(comment), {
    ask: () => {}, result: () => "states 29.3 GiB, gathered 5.8 GiB", kept, keep: () => {}, told: () => {},
  });
  document.body.replaceChildren(form.element);
  const { line, tell } = predictions.tallyLine();
  tell([form]);
  return line.textContent;
}"""


def test_a_field_shows_its_unit_and_says_it(of_page):
    of_page.evaluate(FORM, [" predict: states [GiB] | gathered [GiB] ", {"typed": ["29.3 GiB", "3"]}])
    assert of_page.get_by_label("Your prediction for gathered, in GiB").input_value() == "3"
    texts = "rows => rows.map((row) => [...row.children].map((one) => one.textContent))"
    rows = of_page.locator(".eb-guess").evaluate_all(texts)
    assert rows == [["states", "", "GiB", "exactly"], ["gathered", "", "GiB", "it is 5.8 GiB: off by 2.8, 48%"]]


def test_what_an_older_chapter_asked_for_is_not_counted(of_page):
    said = of_page.evaluate(FORM, [" predict: states [GiB] ", {"typed": ["29.3", "1", "2"]}])
    assert said.startswith("You predicted 1 of 1 figures")


def test_a_table_s_rows_are_lines_of_text(of_page):
    table = "<table><tr><th>phase</th><th>bytes</th></tr><tr><td>forward</td><td>1,024</td></tr></table>"
    text = of_page.evaluate(
        "html => predictions.textOf(Object.assign(document.createElement('div'), { innerHTML: html }))", table
    )
    assert [line.split() for line in text.splitlines() if line.strip()] == [["phase", "bytes"], ["forward", "1,024"]]

"""The formula sheet says what the formulas say now, and explains each of its letters."""

import re

import pytest

from every_byte.formula.expressions import LETTER_ORDER, Expression
from tools.formula_sheet import ESTIMATES, LETTERS, MOMENTS, PAGE, page
from utils.formulas.estimates import parameter_count
from utils.formulas.gpt import GPTSettings, held_after_forward, held_in_loss
from utils.models.gpt import letters

XL = letters("gpt2-xl") | {"b": 2, "t": 4}
ABBREVIATIONS = {
    "N": parameter_count().value(XL),
    "Ne": XL["b"] * XL["s"] * XL["d"],
    "Na": XL["a"] * XL["b"] * XL["s"] ** 2,
    "Nl": XL["b"] * XL["s"] * XL["V"],
}


def shown() -> str:
    """The page without its subscripts' tags."""
    return page().replace("<sub>", "").replace("</sub>", "")


def evaluated(text: str) -> int:
    """A size of the sheet for XL, read as a reader would."""
    powers = text.replace("²", "**2")
    names = sorted(ABBREVIATIONS, key=len, reverse=True)
    return Expression(re.sub("|".join(names), lambda found: str(ABBREVIATIONS[found[0]]), powers)).value(XL)


def test_it_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tools/formula_sheet.py"


def test_every_letter_is_explained():
    assert set(LETTERS) == set(LETTER_ORDER)
    sizes = re.findall(r"<td>[^<]*</td><td>([^<]*·[^<]*)</td>", shown())
    assert len(sizes) > 50
    sizes = [size for size in sizes if not size.startswith(("all rows", "parameters"))]
    used = {letter for size in sizes for letter in re.findall(r"[A-Za-z]+", size)}
    assert used <= {*LETTERS, *ABBREVIATIONS}
    assert "N, the number of parameters" in page()
    assert "Ne = b·s·d, Na = a·b·s², Nl = b·s·V" in shown()
    assert Expression(sizes[0]).letters == ("b", "s", "d", "e")


@pytest.mark.parametrize("name", ESTIMATES)
def test_an_estimate_as_people_write_it_is_the_formula(name):
    _, formula = ESTIMATES[name]
    (size,) = re.findall(f"<td>{name}</td><td>([^<]*)</td>", shown())
    assert evaluated(size) == formula().bytes(**XL)


@pytest.mark.parametrize("name", MOMENTS)
def test_what_is_there_at_a_peak_adds_up(name):
    """The rows that are named, by their numbers, and what comes to them: no other part of the sheet is needed."""
    (sum_of_rows,) = re.findall(f"<td>{name}</td><td>([^<]* [+] [^<]*)</td>", shown())
    forward = held_after_forward(GPTSettings())
    rows = forward.by_term(**XL) | {"all rows after forward": forward.bytes(**XL)}
    for row in sorted(rows, key=len, reverse=True):
        sum_of_rows = sum_of_rows.replace(row, str(rows[row]))
    assert evaluated(sum_of_rows) == MOMENTS[name](GPTSettings()).bytes(**XL)


def test_its_numbers_are_the_formulas():
    n_bytes = held_in_loss(GPTSettings()).bytes(**letters("gpt2-xl"), b=1)
    assert f"<td>{n_bytes:,d}</td>" in page()


def test_it_asks_for_nothing_from_elsewhere():
    assert not re.search(r"(src|href|url|@import)\b", page())

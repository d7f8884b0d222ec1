"""The formula sheet says what the formulas say now, and explains each of its letters."""

import re

from tools.formula_sheet import LETTERS, PAGE, page
from utils.expressions import BOOK_LETTERS, Expression
from utils.gpt import letters
from utils.gpt_held import GPTSettings, held_in_loss


def test_it_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tools/formula_sheet.py"


def test_every_letter_is_explained():
    assert set(LETTERS) == set(BOOK_LETTERS)
    sizes = re.findall(r"<td>[^<]*</td><td>([^<]*·[^<]*)</td>", page())
    assert len(sizes) > 50
    used = {letter for size in sizes for letter in re.findall(r"[A-Za-z]+", size)}
    assert used <= set(LETTERS)
    assert Expression(sizes[0]).letters == ("b", "s", "d", "e")


def test_its_numbers_are_the_formulas():
    n_bytes = held_in_loss(GPTSettings()).bytes(**letters("gpt2-xl"), b=1)
    assert f"<td>{n_bytes:,d}</td>" in page()


def test_it_asks_for_nothing_from_elsewhere():
    assert not re.search(r"(src|href|url|@import)\b", page())

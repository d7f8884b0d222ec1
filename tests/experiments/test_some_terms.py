"""Some terms of a formula: which are shown, how they are named, and what is said of the others."""

import pytest

from every_byte.formula.formula import Formula, Term
from utils.experiments.some_terms import some_terms

FORMULA = Formula(
    "at the peak",
    (
        Term("parameters", "14*L", 4, why="parameters"),
        Term("model.layers.*.mlp.up: mm → Mul.self", "8*b*s*L", 2, why="activations"),
        Term("* Stack.layers.*.attn: mm → Mul.self", "4*b*s*L", 2, why="activations"),
        Term("* Linear: mm", "b", 4, why="activations"),
    ),
)


def lines(*words):
    return [line.split() for line in repr(some_terms(FORMULA, *words)).splitlines()]


def test_the_terms_with_one_of_the_words_are_shown_by_their_inner_modules():
    title, head, *rows = lines("mlp", "attn")
    assert title[:4] == ["2", "of", "4", "terms;"]
    assert head == ["elements", "bytes", "each", "term"]
    assert [row[2:] for row in rows] == [["mlp.up:", "mm", "→", "Mul.self"], ["attn:", "mm", "→", "Mul.self"]]
    assert [row[1] for row in rows] == ["2", "2"]


@pytest.mark.parametrize("words", [(), ("convolution",)])
def test_all_are_shown_if_none_has_a_word(words):
    title, _, *rows = lines(*words)
    assert title[:3] == ["4", "of", "4"]
    assert [row[2] for row in rows] == ["parameters", "mlp.up:", "attn:", "*"]


def test_it_shows_itself_as_a_table():
    shown = some_terms(FORMULA, "parameters")._repr_html_()
    assert shown.count("<tr>") == 2
    assert "1 of 4 terms; at the peak" in shown

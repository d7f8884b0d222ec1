"""Parts of one whole in the kernel's half of the explorer: a total in the table, and sentences that say "part"."""

import re

import pytest
from block_with_curves import PARTS, bytes_of, formula, make, measure

from every_byte.formula.formula import Formula, Term
from every_byte.units import exact
from every_byte.widget import Account

FEW = {"activations": ["GELU"], "curves": None, "curves_of": None}


def lines(explorer):
    """The table's cells; the words of one cell are one space apart."""
    return [re.split(r"\s{2,}", line.strip()) for line in repr(explorer.table()).splitlines()]


def all_bytes(settings):
    return sum(n for terms in bytes_of(settings).values() for n in terms.values())


def test_the_table_ends_with_the_total_of_all_parts():
    explorer = make(**FEW)
    found = lines(explorer)
    assert found[1] == ["part, term", "formula", "predicted", "simulated", "difference"]
    assert [line[0] for line in found if line[0] in PARTS] == list(PARTS)
    total = exact(all_bytes(explorer.value))
    assert found[-2] == ["total", total, total, "0 bytes"]
    html = explorer._repr_mimebundle_()[0]["text/html"]
    assert (
        f'<th style="text-align:left">total</th><td style="text-align:left"></td><td style="text-align:right">{total}'
        in html
    )


def test_stages_have_no_total():
    explorer = make(**FEW, parts=False)
    assert explorer.spec["parts"] is False
    found = lines(explorer)
    assert found[1][0] == "stage, term"
    assert "total" not in [line[0] for line in found]


def test_the_total_tells_a_difference_and_a_dash_where_one_side_is_missing():
    def more(settings):
        found = bytes_of(settings)
        return Account(found | {"mlp": found["mlp"] | {"surprise": 7}})

    explorer = make(**FEW, measure=more)
    n_bytes = all_bytes(explorer.value)
    assert lines(explorer)[-2] == ["total", exact(n_bytes), exact(n_bytes + 7), "7 bytes"]
    explorer = make(**FEW, measure=lambda settings: 1 / 0)
    assert lines(explorer)[-2] == ["total", exact(n_bytes), "–", "–"]
    half = Formula("half", (Term("half", "b/4", 1),))
    explorer = make(**FEW, formula=lambda settings: formula(settings) | {"norm1": half}, measure=measure)
    assert lines(explorer)[-2] == ["total", "–", exact(n_bytes), "–"]


def test_sentences_speak_of_parts():
    explorer = make(**FEW, measure=lambda settings: Account({"mlp": {"input": 1}}))
    assert repr(explorer.table()).endswith(
        "measure must return an Account of the formula's parts: got the parts mlp, but the formula has the parts "
        "norm1, attention, norm2, mlp; pass Account({part: {term: bytes}}) with all of them."
    )

    def changing(settings):
        return {"mlp": formula(settings)["mlp"]} if settings["dropout"] else formula(settings)

    message = (
        "formula must give the same parts for every setting, in the same order: got the parts mlp for activation=GELU, "
        "attention=flash, dropout=on, but the parts norm1, attention, norm2, mlp before; a part that has nothing in "
        "this setting is Formula(title, ())."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        make(**FEW, formula=changing)


def test_one_formula_has_no_parts():
    message = "parts=True needs a formula in parts, as {name: Formula}: got one Formula; leave parts out."
    with pytest.raises(ValueError, match=re.escape(message)):
        make(**FEW, formula=lambda settings: formula(settings)["mlp"])

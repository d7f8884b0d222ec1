"""The block's explorer: each choice is accounted for, term by term, as it predicts."""

import pytest

from utils.explorers.block import ATTENTIONS, CHOICES, account, predicted
from utils.formulas.block import block_parts

SIZE = {"b": 2, "s": 4096, "d": 1024}
BASE = {**SIZE, "a": 8, "activation": ("GELU", False), "attention": "efficient", "dropout": 0.0}
SETTINGS = [{"activation": option} for option in CHOICES.values()]
SETTINGS += [{"attention": kind, "dropout": p} for kind in ATTENTIONS for p in (0.0, 0.1)]


@pytest.mark.parametrize("choice", SETTINGS, ids=str)
def test_every_choice_is_as_predicted(choice):
    setting = BASE | choice
    terms = {part: formula.by_term(**SIZE, a=8, e=2) for part, formula in predicted(setting).items()}
    assert account(setting).terms == terms


def test_the_parts_of_the_published_block():
    setting = dict(SIZE, a=2, activation=("ReLU", False), attention="efficient", dropout=0.0)
    by_part = {part: sum(terms.values()) for part, terms in account(setting).terms.items()}
    formulas = block_parts(attention="efficient", activation="relu")
    assert by_part == {part: formula.bytes(**SIZE, a=2, e=2) for part, formula in formulas.items()}
    assert sum(by_part.values()) == 201_523_216

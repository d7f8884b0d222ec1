"""What explorers of a GPT's step have in common stands in one place, and follows what it speaks of."""

from dataclasses import replace

import pytest

from every_byte.gpu.memory.specs import find_spec
from every_byte.gpu.operators.indexing import FEW_INDICES
from every_byte.widget.stages import reasons_beyond
from utils.explorers.gallery import GALLERY
from utils.explorers.gpt import account
from utils.explorers.gpt_controls import LETTERS, MANY_TOKENS
from utils.models.gpt import SIZES

OF_A_GPT = [GALLERY[name].make() for name in ("gpt", "checkpoint")]


def test_both_have_the_same_model_and_tokens():
    first, second = ([explorer.controls[symbol].spec() for symbol in ("b", "s")] for explorer in OF_A_GPT)
    assert first == second
    for explorer in OF_A_GPT:
        for name in SIZES:
            assert explorer.controls["model"].letters(name).items() >= LETTERS[name].items()


def test_the_limit_is_that_of_the_kernel():
    assert MANY_TOKENS.holds({"b": 1, "s": FEW_INDICES}, {})
    assert not MANY_TOKENS.holds({"b": 1, "s": FEW_INDICES + 1}, {})
    for explorer in OF_A_GPT:
        last = list(explorer.limits)[-1]
        names = {"regions": "none"}
        letters = {"b": 1, "s": FEW_INDICES + 1, "L": 12, "k": 1}
        assert reasons_beyond({last: explorer.limits[last]}, letters, names) == {last: MANY_TOKENS.reason}


@pytest.mark.long
def test_a_slider_that_comes_back_finds_the_account_and_the_verdict_of_before():
    """Of a GPU by name: of any other, as this machine's own, each is taken anew."""
    small = {"b": 1, "s": 16}
    first, other, again = (account(setting) for setting in (small, small | {"s": 32}, small))
    assert first is again
    assert first.terms != other.terms
    assert first.judge("") is again.judge("")
    assert first == replace(account(small | {"gpu": find_spec("a100-80gb")}), judge=first.judge)
    assert account(small | {"gpu": find_spec("a100-80gb")}) is not account(small | {"gpu": find_spec("a100-80gb")})

"""The diagram of a Llama's block: every large tensor that the closed form has, with its bytes, and their sum."""

import pytest
from diagrams import words

from utils.figures.llama_diagram import llama_block
from utils.formulas.llama_block import llama_block_saved
from utils.formulas.llama_settings import LlamaSettings

LETTERS = {"d": 96, "a": 6, "g": 2, "f": 200}


@pytest.mark.parametrize("attention", ["flash", "cudnn"])
def test_each_term_is_drawn_and_the_sum_is_theirs(attention):
    settings = LlamaSettings(precision="bfloat16", attention=attention)
    terms = {term.name: term.size.value(LETTERS | {"b": 1, "s": 1, "L": 1}) for term in llama_block_saved(settings)}
    random_state = terms.pop("attention: random state")
    diagram = llama_block(settings, **LETTERS)
    said = words(diagram)
    drawn = [n for name, n in terms.items() if "statistic" not in name]
    assert sorted(int(text.replace(",", "")) for text in said if text.replace(",", "").isdigit()) == sorted(drawn)
    assert said[-1] == f"kept, bytes for each token: {sum(terms.values()):,}"
    assert f"random state: {random_state:,}" in diagram.alt

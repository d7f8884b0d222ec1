"""The diagrams of a block on ranks: what their boxes say is what the closed form of a rank gives."""

import pytest
from diagrams import words

from every_byte.units import short
from utils.experiments.rank_steps import as_rank
from utils.figures.ranks_diagram import split_block, three_exchanges
from utils.formulas.tensor_parallel import rank_saved

LETTERS = dict(b=1, s=2048, d=12288, a=96, t=8, e=2)


def test_the_three_exchanges_end_as_they_should():
    found = words(three_exchanges())
    assert found.count("Σ") == 4
    assert [found.count(str(part)) for part in range(4)] == [5, 5, 5, 5]
    assert [f"Σ{part}" in found for part in range(4)] == [True] * 4
    assert [found.count(letter) for letter in "ABCD"] == [2, 2, 2, 2]


@pytest.mark.parametrize("changed", [{}, {"d": 1536, "a": 12}, {"b": 3, "t": 2}])
@pytest.mark.parametrize("sequence", [False, True])
def test_each_step_takes_what_the_closed_form_says(sequence, changed):
    letters = LETTERS | changed
    terms = rank_saved(attention="explicit", activation="gelu", sequence=sequence).by_term(**letters)
    said = [text.rpartition(": ")[2] for text in words(split_block(sequence=sequence, **letters)) if "iB" in text]
    names = ["norm1: input", "attention: input", "attention: q, k, v", "attention: output", "norm1: input"]
    names += ["norm2: input", "mlp: input", "mlp: activation input", "mlp: down input", "norm2: input"]
    assert said == [short(terms[name]) for name in names]


def test_what_is_whole_and_where_ranks_exchange():
    tensor, both = (split_block(sequence=sequence, **LETTERS) for sequence in (False, True))
    assert [sum(text.startswith("whole") for text in words(one)) for one in (tensor, both)] == [6, 2]
    assert [sum("reduce" in text or "gather" in text for text in words(one)) for one in (tensor, both)] == [2, 4]
    assert "6 of 10 steps take a whole tensor; between them, in order: all-reduce, all-reduce." in tensor.alt
    assert "2 of 10 steps" in both.alt
    assert words(both).count("1/8 of the positions: 6 MiB") == 4


def test_the_exchanges_are_those_of_a_run():
    for sequence in (False, True):
        step = as_rank(2, b=1, s=32, d=64, a=4, sequence=sequence)
        run = [name for phase, name, _ in step.exchanges if phase == "forward"]
        drawn = [text for text in words(split_block(sequence=sequence, **LETTERS)) if "reduce" in text or "gat" in text]
        assert drawn == run

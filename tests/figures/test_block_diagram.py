"""What the boxes of the block's diagram say is the formula's, and changes with the letters."""

import re
from collections import Counter
from html import unescape

import pytest
from diagrams import words

from every_byte.units import short
from utils.figures.block_diagram import block_tensors
from utils.formulas.block import ATTENTIONS, block_saved

LETTERS = {"b": 3, "s": 96, "d": 64, "a": 4, "e": 2}


def filled(diagram) -> list[list[str]]:
    """The lines of text in each filled box, box by box."""
    parts = re.findall(r"<rect class=\"eb-d-fill-green\"[^>]*/>((?:<text class=\"eb-d-on\".*?</text>)+)", diagram.svg())
    return [[unescape(line) for line in re.findall(r">([^<]+)</text>", part)] for part in parts]


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("letters", [LETTERS, {**LETTERS, "s": 100, "d": 128}])
def test_the_filled_boxes_are_the_terms(attention, autocast, letters):
    choices = {"attention": attention, "activation": "gelu", "autocast": autocast}
    formula = block_saved(**choices)
    expected = Counter(short(n_bytes) for n_bytes in formula.by_term(**letters).values())
    said = [lines[1] for lines in filled(block_tensors(**choices, **letters))]
    assert Counter(" ".join(words.split()[:2]) for words in said) == expected
    types = Counter(words.split()[2] for words in said if len(words.split()) > 2)
    element_bytes = Counter(term.element_bytes for term in formula.terms if "random state" not in term.name)
    assert types == {
        name: count
        for name, count in {
            "bfloat16": element_bytes["e"],
            "float32": element_bytes[4],
            "bool": element_bytes[1],
        }.items()
        if count
    }


def test_dropout_has_its_masks():
    choices = {"attention": "explicit", "activation": "gelu", "dropout": True}
    said = filled(block_tensors(**choices, **LETTERS))
    masks = {name: size for name, size in said if "mask" in name}
    bsd, weights = 3 * 96 * 64, 4 * 3 * 96 * 96
    assert masks["weights' mask"] == f"{short(weights)} bool"
    assert masks["dropout mask"] == f"{short(bsd)} bool"
    assert [name for name, _ in said].count("dropout mask") == 2
    assert ["dropped weights", f"{short(2 * weights)} bfloat16"] in said


def test_s_by_s_stands_in_explicit_attention_alone():
    explicit, flash = (block_tensors(attention=name, **LETTERS) for name in ("explicit", "flash"))
    assert {"scores [a, b, s, s]", "weights [a, b, s, s]"} <= set(words(explicit))
    assert not any("s, s]" in text for text in words(flash))
    assert "logsumexp [a, b, s]" in words(flash)
    assert {"explicit attention", "flash attention"} <= set(words(block_tensors(**LETTERS)))


def test_what_is_freed_is_dashed_and_says_so():
    gelu, relu = (block_tensors(attention="flash", activation=name, **LETTERS) for name in ("gelu", "relu"))
    h = f"{short(4 * 2 * 3 * 96 * 64)} bfloat16"
    assert ["h", h] in filled(gelu)
    assert ["h", h] not in filled(relu)
    assert f"{h}, freed" in words(relu)
    for diagram in (gelu, relu):
        n_outlines = sum("freed" in text for text in words(diagram)) + 1  # and the kernel's tiles
        assert diagram.svg().count("stroke-dasharray") == n_outlines


def test_other_types_and_terms():
    float32 = block_tensors(attention="explicit", activation="Softsign", **{**LETTERS, "e": 4})
    assert ["denominator", f"{short(4 * 4 * 3 * 96 * 64)} float32"] in filled(float32)
    assert "bfloat16" not in float32.svg()
    assert "float16" in block_tensors(attention="flash", half="float16", **LETTERS).svg()


def test_the_alt_text_says_the_sum():
    alt = block_tensors(**LETTERS).alt
    for attention in ("explicit", "flash"):
        n_bytes = block_saved(attention=attention, activation="gelu").bytes(**LETTERS)
        assert f"With {attention} attention {short(n_bytes)} are kept" in alt
    assert alt.count("statistics") == 4


def test_under_autocast_what_goes_round_stays_float32():
    diagram = block_tensors(attention="explicit", autocast=True, **LETTERS)
    said, stream = words(diagram), f"{short(4 * 3 * 96 * 64)} float32"
    assert said[said.index("y, the next block's x") + 1] == stream
    assert said[said.index("norm2's result") + 1] == f"{stream}, freed"
    assert ["x + attention", stream] in filled(diagram)
    assert ["norm2's result, cast", f"{short(2 * 3 * 96 * 64)} bfloat16"] in filled(diagram)

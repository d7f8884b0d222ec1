"""The book's colours: told apart, and text on them legible, on light and dark pages."""

import itertools
import math

import pytest

from every_byte.palette import CATEGORIES, PALETTE, PRIORITY, STATE, TERMS, assign, colour_of
from utils.formulas.mlp import ACTIVATIONS, mlp_saved

WHITE, BLACK = "#ffffff", "#101010"


def luminance(colour: str) -> float:
    """WCAG's relative luminance."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", PALETTE, ids=lambda colour: colour.name)
def test_text_on_a_colour_meets_contrast_aa(colour):
    """So does the colour beside the page, which needs 3 only."""
    assert contrast(colour.light, WHITE) >= 4.5
    assert contrast(colour.dark, BLACK) >= 4.5


def test_no_two_colours_share_a_name_a_tone_or_a_hatch():
    for field in ("name", "light", "dark", "hatch"):
        assert len({getattr(colour, field) for colour in PALETTE}) == len(PALETTE)


def in_oklab(colour: str) -> tuple[float, float, float]:
    """Ottosson's OKLab, in which distances are roughly those that people see."""
    linear = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in linear]
    to_cones = (
        (0.41222147, 0.53633254, 0.05144599),
        (0.21190350, 0.68069955, 0.10739696),
        (0.08830246, 0.28171884, 0.6299787),
    )
    cones = [sum(map(float.__mul__, row, linear)) ** (1 / 3) for row in to_cones]
    to_lab = (
        (0.21045426, 0.79361779, -0.00407205),
        (1.97799850, -2.42859221, 0.45059371),
        (0.02590404, 0.78277177, -0.80867577),
    )
    return tuple(sum(map(float.__mul__, row, cones)) for row in to_lab)


@pytest.mark.parametrize("page", ["light", "dark"])
def test_any_two_colours_look_different(page):
    """0.02 is a difference that one just sees, side by side."""
    tones = [in_oklab(getattr(colour, page)) for colour in PALETTE]
    assert min(math.dist(one, other) for one, other in itertools.combinations(tones, 2)) > 0.055


def test_a_figure_never_gives_two_names_one_colour():
    assert len({colour.light for colour in assign(map(str, range(15))).values()}) == 15
    with pytest.raises(ValueError, match="a figure has 15 colours: got 16 names"):
        assign(map(str, range(16)))


def test_a_category_has_one_colour_everywhere():
    terms = [term.name for name in ACTIVATIONS for term in mlp_saved(activation=name, dropout=True).terms]
    everywhere = assign(terms)
    for name in ACTIVATIONS:
        for term, colour in assign(term.name for term in mlp_saved(activation=name, dropout=True).terms).items():
            assert colour == everywhere[term]
    assert set(terms) == set(TERMS)
    assert [colour.name for colour in assign(CATEGORIES).values()] == list(CATEGORIES.values())


def test_other_names_get_what_is_free():
    colours = assign(["something else", "input", "a third", "down input"])
    assert [colour.name for colour in colours.values()] == ["orange", "blue", "purple", "green"]
    for own in (CATEGORIES, TERMS):
        assert len(set(own.values())) == len(own)


def test_where_a_term_and_a_category_meet_the_first_comer_keeps_the_colour():
    assert TERMS["down input"] == CATEGORIES["activations"]
    colours = assign(["down input", "activations"])
    assert [colour.name for colour in colours.values()] == ["green", "blue"]


def test_what_is_named_by_its_module_comes_before_what_is_not():
    in_order = sorted(PRIORITY, key=PRIORITY.__getitem__)
    assert sorted(PRIORITY.values()) == list(range(1, len(PRIORITY) + 1))
    assert set(in_order[: len(STATE)]) == STATE
    assert in_order[len(STATE) :] == ["inputs", "autocast copies", "activations", "outputs", "temporaries"]
    assert set(PRIORITY) < set(CATEGORIES)


def test_a_colour_by_its_category_or_its_name():
    assert colour_of("activations") == colour_of("green") == assign(["activations"])["activations"]
    with pytest.raises(ValueError, match="a colour must be a category of memory or one of blue, .*: got 'turquoise'"):
        colour_of("turquoise")

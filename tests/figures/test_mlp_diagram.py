"""The diagrams of an MLP say what its formulas say, for whatever letters."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
from diagrams import SVG, words

from every_byte.units import short
from utils.figures.mlp_diagram import dropout_places, mlp_guess, mlp_tensors
from utils.formulas.mlp import mlp_saved, mlp_saved_dropout_inside

LETTERS = ({"b": 2, "s": 4096, "d": 1024, "e": 2}, {"b": 3, "s": 512, "d": 768, "e": 4})


def filled(diagram) -> int:
    boxes = ElementTree.fromstring(diagram.svg()).iter(f"{SVG}rect")
    return sum(box.get("class") == "eb-d-fill-green" for box in boxes)


def kept(diagram) -> dict[str, list[str]]:
    """The readers of each kept tensor, by its letter and size, column after column."""
    said = words(diagram)
    pairs = [
        (box, use.removeprefix("kept for ")) for box, use in zip(said, said[1:], strict=False) if "kept for" in use
    ]
    return {box: [use for one, use in pairs if one == box] for box, _ in pairs}


def sizes(letters, *widths):
    return [short(width * letters["b"] * letters["s"] * letters["d"] * letters["e"]) for width in widths]


@pytest.mark.parametrize("letters", LETTERS)
def test_the_guess_gives_sizes_and_nothing_away(letters):
    small, large = sizes(letters, 1, 4)
    assert words(mlp_guess(**letters)) == ["x", small, "h", large, "up", "g", large, "φ", "y", small, "down"]
    assert filled(mlp_guess(**letters)) == 0
    assert mlp_guess(**letters).alt.endswith(f": x {small}, h {large}, g {large}, y {small}.")


@pytest.mark.parametrize("letters", LETTERS)
def test_each_column_is_its_formula(letters):
    diagram, (small, large) = mlp_tensors(**letters), sizes(letters, 1, 4)
    assert kept(diagram) == {
        f"x  {small}": ["W₁", "W₁"],
        f"h  {large}": ["φ′"],
        f"g  {large}": ["W₂", "W₂ and φ′"],
    }
    assert filled(diagram) == 5
    totals = [f"kept: {short(mlp_saved(activation=name).bytes(**letters))}" for name in ("gelu", "relu")]
    assert [word for word in words(diagram) if word.startswith("kept: ")] == totals
    gelu, relu = (total.removeprefix("kept: ") for total in totals)
    assert diagram.alt.endswith(f"GELU: x, h, g are kept, {gelu}; ReLU: x, g are kept, {relu}.")


@pytest.mark.parametrize("letters", LETTERS)
def test_the_places_of_dropout(letters):
    diagram, (small, large) = dropout_places(**letters), sizes(letters, 1, 4)
    assert kept(diagram) == {
        f"x  {small}": ["W₁", "W₁"],
        f"g  {large}": ["W₂ and φ′", "φ′"],
        f"g̃  {large}": ["W₂"],
    }
    last, inside = mlp_saved(activation="relu", dropout=True), mlp_saved_dropout_inside(activation="relu")
    masks = [f"m  {short(formula.by_term(**letters)['dropout mask'])}" for formula in (last, inside)]
    assert [word for word in words(diagram) if re.match("m ", word)] == masks
    totals = [f"kept: {short(formula.bytes(**letters))}" for formula in (last, inside)]
    assert [word for word in words(diagram) if word.startswith("kept: ")] == totals
    assert filled(diagram) == 7
    assert "x, g, g̃, m are kept" in diagram.alt


def test_with_gelu_dropout_inside_keeps_no_tensor_more():
    assert "dropout after φ: x, h, g̃, m are kept" in dropout_places("gelu", **LETTERS[0]).alt

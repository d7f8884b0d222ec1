"""A diagram says in SVG what it was told: its boxes, words and arrows, in colours for each page, and in words."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from every_byte.palette import CATEGORIES, PALETTE
from utils.figures.diagram import WIDTH, Box, Diagram

SVG = "{http://www.w3.org/2000/svg}"


def parsed(diagram):
    return ElementTree.fromstring(diagram.svg())


def test_a_diagram_shows_itself_and_says_what_it_shows():
    diagram = Diagram("Two boxes & an arrow", 100)
    bundle = diagram._repr_mimebundle_()
    assert bundle == {"image/svg+xml": diagram.svg(), "text/plain": "Two boxes & an arrow"}
    picture = parsed(diagram)
    assert (picture.get("role"), picture.get("aria-label")) == ("img", "Two boxes & an arrow")
    assert picture.get("viewBox") == f"0 0 {WIDTH} 100"


def test_a_box_has_its_lines_in_its_middle():
    diagram = Diagram("", 100)
    assert diagram.box(10, 20, 80, 40, "one", "two < three") == Box(10, 20, 80, 40)
    texts = parsed(diagram).findall(f"{SVG}text")
    assert [text.text for text in texts] == ["one", "two < three"]
    assert {(text.get("x"), text.get("text-anchor")) for text in texts} == {("50", "middle")}
    assert sum(float(text.get("y")) for text in texts) / 2 == 40


def test_a_box_is_filled_or_an_outline_and_its_words_can_be_read_on_it():
    diagram = Diagram("", 100)
    diagram.box(0, 0, 10, 10, "kept", colour="activations")
    diagram.box(0, 0, 10, 10, "freed", dashed=True)
    diagram.box(0, 0, 10, 10, "plain")
    _, filled, dashed, plain = parsed(diagram).findall(f"{SVG}rect")
    assert filled.get("class") == f"eb-d-fill-{CATEGORIES['activations']}"
    assert dashed.get("class") == plain.get("class") == "eb-d-box"
    assert dashed.get("stroke-dasharray")
    assert plain.get("stroke-dasharray") is filled.get("stroke-dasharray") is None
    assert [text.get("class") for text in parsed(diagram).findall(f"{SVG}text")] == ["eb-d-on", "eb-d-ink", "eb-d-ink"]


@pytest.mark.parametrize("colour", PALETTE, ids=lambda colour: colour.name)
def test_each_colour_has_a_tone_for_light_pages_and_one_for_dark_ones(colour):
    diagram = Diagram("", 10)
    diagram.box(0, 0, 10, 10, colour=colour.name)
    light, dark = diagram.svg().split("@media screen")
    assert f".eb-d-fill-{colour.name}{{fill:{colour.light}}}" in light
    assert f"[data-theme=dark] .eb-d-fill-{colour.name}{{fill:{colour.dark}}}" in dark


def test_a_colour_that_does_not_exist_is_refused():
    diagram = Diagram("", 10)
    with pytest.raises(ValueError, match="a colour must be a category of memory or one of .*: got 'turquoise'"):
        diagram.box(0, 0, 10, 10, colour="turquoise")


def test_a_colour_named_as_a_tone_of_text_leaves_that_one_alone():
    diagram = Diagram("", 10)
    diagram.box(0, 0, 10, 10, colour="gathered parameters")
    diagram.text(0, 0, "beside it")
    [word] = parsed(diagram).findall(f"{SVG}text")
    rules = re.findall(rf"\.{word.get('class')}{{fill:(\S+?)}}", diagram.svg())
    assert rules == ["#23272d", "#dde2e7"], "on light pages, and on dark ones"


def test_an_area_has_its_points_and_its_colour():
    diagram = Diagram("", 100)
    diagram.area([(0, 10), (20.5, 10), (20.5, 30)], "activations")
    [area] = parsed(diagram).findall(f"{SVG}polygon")
    assert area.get("points") == "0,10 20.5,10 20.5,30"
    assert area.get("class") == f"eb-d-fill-{CATEGORIES['activations']}"


def test_the_sides_of_a_box():
    box = Box(10, 20, 80, 40)
    assert (box.left, box.right, box.top, box.bottom) == ((10, 40), (90, 40), (50, 20), (50, 60))


def test_an_arrow_ends_in_a_head_at_its_last_point():
    diagram = Diagram("", 100)
    diagram.arrow((0, 0), (50, 0), (50, 40))
    diagram.arrow((0, 0), (30, 0), dashed=True, head=False)
    line, bare = parsed(diagram).findall(f"{SVG}polyline")
    assert line.get("points") == "0,0 50,0 50,40"
    assert bare.get("stroke-dasharray")
    assert line.get("stroke-dasharray") is None
    [head] = parsed(diagram).findall(f"{SVG}polygon")
    corners = [tuple(map(float, corner.split(","))) for corner in head.get("points").split()]
    assert corners[0] == (50, 40)
    assert all(y < 40 for _, y in corners[1:])
    assert sorted(x for x, _ in corners[1:]) == [46.5, 53.5]

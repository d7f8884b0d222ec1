"""The bar of a card in a notebook: each part as wide as its bytes, in its category's own colours, all in the legend."""

import re

import pytest
from reported import of_a_gpt, of_an_mlp, out_of_memory

from every_byte.palette import colour_of
from every_byte.report.render.drawn import card_of
from every_byte.report.render.picture import WIDTH, picture_of
from every_byte.units import short

REPORTS = [of_an_mlp, of_a_gpt, out_of_memory]
PART = re.compile(
    r'<rect x="([\d.]+)" width="([\d.]+)" y="1" height="32" style="--light:(#\w+);--dark:(#\w+)"><title>(.+?): '
)


@pytest.mark.parametrize("report", REPORTS)
def test_parts_follow_one_another_and_are_as_wide_as_their_bytes(report):
    card = card_of(report())
    whole = card["reserved"] + card["asked"]
    whole = whole if card["reserved"] * 10 < card["room"] else max(card["room"], whole)
    at = 0
    shown = {name: (float(x), float(width)) for x, width, _, _, name in PART.findall(picture_of(card))}
    for name, n_bytes in card["parts"].items():
        if name in shown:
            assert shown[name] == pytest.approx((WIDTH * at / whole, WIDTH * n_bytes / whole), abs=0.06)
        else:
            assert WIDTH * n_bytes / whole < 1
        at += n_bytes
    assert shown


@pytest.mark.parametrize("report", REPORTS)
def test_all_of_it_is_in_the_legend_and_colours_are_the_categories_own(report):
    card = card_of(report())
    html = picture_of(card)
    for name, n_bytes in card["parts"].items():
        assert f"{name} {short(n_bytes)}</li>" in html
    for _, _, light, dark, name in PART.findall(html):
        assert (light, dark) == (colour_of(name).light, colour_of(name).dark)
    assert ("asked for" in html) == bool(card["asked"])


def test_the_same_category_has_the_same_colour_on_each_page():
    styles = [dict(re.findall(r'"([\w ]+)":{"name":"\w+","light":"(#\w+)"', report().html())) for report in REPORTS]
    for name in set.intersection(*map(set, styles)):
        assert {style[name] for style in styles} == {colour_of(name).light}
    assert set.intersection(*map(set, styles))

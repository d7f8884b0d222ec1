"""Parts of one whole in a bare page: the total below them, no change from one to the next, and a verdict on both."""

import re

import pytest
from bare_page import captions, draw, settle, state
from block_with_curves import ATTENTIONS, PARTS, bytes_of, make

from every_byte.formula.formula import Formula, Term
from every_byte.units import short

FEW = {"activations": ["GELU"], "curves": None, "curves_of": None}


@pytest.fixture(scope="module")
def explorer():
    return make(**FEW)


@pytest.fixture
def shown(explorer):
    return state(explorer)


def all_bytes(explorer):
    return sum(n for terms in bytes_of(explorer.value).values() for n in terms.values())


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_the_table_ends_with_the_total_of_all_parts(page, explorer, attention):
    view = draw(page, state(explorer, attention=attention, dropout=True))
    assert view.stages() == [(part, sum(t.values()), sum(t.values())) for part, t in bytes_of(explorer.value).items()]
    n_bytes = all_bytes(explorer)
    assert view.total() == ("total", n_bytes, n_bytes)
    assert view.status == f"Predicted and simulated agree in every term of every part: {n_bytes:,d} bytes in total."
    assert page.locator("tfoot tr").count() == 1
    assert page.locator("thead th").first.text_content() == "part"


def test_parts_show_no_change_from_one_to_the_next(page, explorer, shown):
    draw(page, shown)
    settle(page)
    assert page.locator(".eb-change").count() == 0
    text = page.locator(".eb").inner_text()
    assert not {"▲", "▼"} & set(text)
    assert "stage" not in text
    assert page.locator(".eb-legend p").inner_text() == "Upper bars: predicted. Lower bars: simulated."
    assert [caption for caption in captions(page) if caption in PARTS] == list(PARTS)
    label = page.locator(".eb-bars").get_attribute("aria-label")
    total = short(all_bytes(explorer))
    assert label.endswith(f" total: predicted {total}. simulated {total}.")


def test_the_legend_numbers_every_term_also_beyond_nine(page, explorer):
    draw(page, state(explorer, attention="explicit", dropout=True))
    terms = list(dict.fromkeys(name for terms in bytes_of(explorer.value).values() for name in terms))
    assert len(terms) == 10
    swatches = page.locator(".eb-legend li svg")
    assert swatches.locator("text").all_text_contents() == [str(i) for i in range(1, 11)]
    assert page.locator(".eb-legend li").all_inner_texts()[-1].endswith(terms[-1])


def test_a_difference_is_in_the_total_too(page, explorer, shown):
    terms = shown[2]["terms"]
    changed = terms | {"mlp": terms["mlp"] | {"input": terms["mlp"]["input"] - 512, "surprise": 7}}
    view = draw(page, shown, terms=changed)
    n_bytes = all_bytes(explorer)
    assert view.total() == ("total", n_bytes, n_bytes - 505)
    assert view.status == (
        "Predicted and simulated differ, in bytes, in mlp: input by -512, surprise by +7. "
        f"In total: {n_bytes:,d} bytes predicted, {n_bytes - 505:,d} bytes simulated."
    )
    assert "eb-off" in page.locator("tfoot .eb-difference").get_attribute("class")


def test_differences_that_cancel_among_parts_do_not_hide(page, shown):
    terms = shown[2]["terms"]
    moved = {part: terms[part] | {"input": terms[part]["input"] + off} for part, off in (("norm1", 4), ("mlp", -4))}
    draw(page, shown, terms=terms | moved)
    assert page.locator("tfoot .eb-difference").inner_text().split("\n") == ["0", "terms differ"]


def test_the_total_waits_and_fails_with_the_account(page, explorer, shown):
    spec, value, answer = shown
    draw(page, [spec, value | {"b": 4}, answer])
    total = page.locator("tfoot tr")
    assert total.locator(".eb-accounted").inner_text() == "…"
    assert total.get_attribute("data-predicted") == str(2 * all_bytes(explorer) - 24)  # 24 bytes of random state, once
    draw(page, shown, terms=None, error="No.", badge="")
    assert total.locator(".eb-accounted").inner_text() == "–"
    assert total.get_attribute("data-accounted") is None


def test_parts_without_a_size_have_no_total(page):
    half = Formula("half", (Term("half", "b/4", 1),))
    explorer = make(**FEW, formula=lambda settings: {"half": half, "whole": half})
    view = draw(page, state(explorer), error="None.", terms=None)
    assert "NaN" not in page.locator(".eb").evaluate("node => node.outerHTML")
    assert page.locator("tfoot tr").get_attribute("data-predicted") is None
    assert view.status.startswith("None. No prediction of this setting: b/4 must be a whole number")
    view = draw(page, state(explorer), absence="Not here.", error="", terms=None)
    assert re.fullmatch("No prediction of this setting: b/4 must be a whole number.*Not here\\.", view.status)


@pytest.mark.parametrize("width", [360, 900])
def test_nothing_is_wider_than_the_page(page, explorer, width):
    page.set_viewport_size({"width": width, "height": 900})
    spec, value, answer = state(explorer, b=64, s=8192, d=4096, a=64, attention="explicit", dropout=True)
    terms = {part: {name: n + 2**45 + 1 for name, n in terms.items()} for part, terms in answer["terms"].items()}
    view = draw(page, [spec, value, answer], terms=terms)
    for part in PARTS:
        view.open(part)
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    total = page.locator("tfoot").bounding_box()
    assert total["x"] + total["width"] <= width - 8
    page.set_viewport_size({"width": 900, "height": 900})

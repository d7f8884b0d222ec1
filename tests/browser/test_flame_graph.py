"""The flame graph of a report's page: boxes as wide as their bytes; mouse and keyboard zoom and move."""

import pytest
from reported import of_a_gpt

from every_byte.report.flames import by_category, by_module
from every_byte.report.render.page import flame_page
from tools.chromium import chromium

pytestmark = pytest.mark.browser
WIDE = {"width": 1000, "height": 900}


@pytest.fixture(params=["report", "alone"])
def page(request, tmp_path):
    report = of_a_gpt()
    path = tmp_path / "page.html"
    path.write_text(report.html() if request.param == "report" else flame_page(report), encoding="utf-8")
    with chromium(viewport=WIDE) as page:
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("console", lambda message: page.errors.append(message.text))
        page.goto(path.as_uri())
        yield page
        assert page.errors == []


def boxes(page, depth):
    """Name and width of the boxes in one row of the graph."""
    path = ".eb-flame > .eb-flame-part" + " > .eb-flame-below > .eb-flame-part" * depth + " > button"
    read = "all => all.map((one) => [one.textContent, one.parentElement.getBoundingClientRect().width])"
    return page.locator(path).evaluate_all(read)


def test_boxes_are_as_wide_as_their_bytes(page):
    flame = by_module(of_a_gpt())
    ((name, whole),) = boxes(page, 0)
    assert name == "all"
    shown = boxes(page, 1)
    assert [name for name, _ in shown] == [one.name for one in flame.largest_first][: len(shown)]
    for (_, width), one in zip(shown, flame.largest_first, strict=False):
        assert abs(width - whole * one.n_bytes / flame.n_bytes) < 1.5


def test_a_click_zooms_and_escape_goes_back(page):
    first = page.locator(".eb-flame-below > .eb-flame-part > button").first
    name, before = first.inner_text(), boxes(page, 0)[0][1]
    first.click()
    ((zoomed, width),) = boxes(page, 0)
    assert zoomed == name
    assert abs(width - before) < 1
    assert page.locator(".eb-flame-above").all_inner_texts() == ["all"]
    page.keyboard.press("Escape")
    assert boxes(page, 0)[0][0] == "all"


def test_arrows_move_and_enter_zooms(page):
    page.locator(".eb-flame-part > button").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    second = boxes(page, 1)[1][0]
    assert page.evaluate("document.activeElement.textContent") == second
    page.keyboard.press("Enter")
    assert boxes(page, 0)[0][0] == second
    assert second in page.locator(".eb-flame + .eb-rest").inner_text()


def test_it_can_be_taken_by_category(page):
    page.locator("#flame-by").select_option("category")
    names = [name for name, _ in boxes(page, 1)]
    assert names == [one.name for one in by_category(of_a_gpt()).largest_first][: len(names)]

"""The decision sheet: printed, one page on which nothing runs out of its cell; and read on a telephone, in the dark."""

from tools.chromium import chromium
from tools.decision_sheet import PAGE

RUNS_OUT = """() => [...document.querySelectorAll("td, th, caption, p, h1, h2")]
  .filter((item) => item.scrollWidth > item.clientWidth + 1).map((item) => item.textContent)"""
A4_LANDSCAPE = {"width": 1062, "height": 734}  # 281 x 194 mm in pixels of CSS: the page without its margins
COLOURS = """() => [getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"""


def test_one_page():
    with chromium(viewport=A4_LANDSCAPE) as page:
        page.goto(PAGE.as_uri())
        page.emulate_media(media="print")
        assert page.evaluate(RUNS_OUT) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= A4_LANDSCAPE["width"]
        pdf = page.pdf(prefer_css_page_size=True)
    assert pdf.count(b"/Type /Page") - pdf.count(b"/Type /Pages") == 1


def test_on_a_narrow_screen():
    with chromium(viewport={"width": 360, "height": 740}) as page:
        page.goto(PAGE.as_uri())
        assert page.evaluate(RUNS_OUT) == []
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert page.evaluate("parseFloat(getComputedStyle(document.querySelector('td')).fontSize)") >= 14


def test_in_the_dark_it_is_printed_in_black():
    with chromium(color_scheme="dark") as page:
        page.goto(PAGE.as_uri())
        assert page.evaluate(COLOURS) == ["rgb(221, 221, 221)", "rgb(18, 18, 18)"]
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate(COLOURS) == ["rgb(17, 17, 17)", "rgb(255, 255, 255)"]

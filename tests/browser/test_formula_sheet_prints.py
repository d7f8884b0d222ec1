"""The formula sheet printed: one page, on which nothing runs out of its column."""

from tools.chromium import chromium
from tools.formula_sheet import PAGE

RUNS_OUT = """() => [...document.querySelectorAll("td, p, h1, h2")]
  .filter((item) => item.scrollWidth > item.clientWidth + 1).map((item) => item.textContent)"""
A4_LANDSCAPE = {"width": 1062, "height": 734}  # 281 x 194 mm in pixels of CSS: the page without its margins


def test_one_page():
    with chromium(viewport=A4_LANDSCAPE) as page:
        page.goto(PAGE.as_uri())
        page.emulate_media(media="print")
        assert page.evaluate(RUNS_OUT) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= A4_LANDSCAPE["width"]
        pdf = page.pdf(prefer_css_page_size=True)
    assert pdf.count(b"/Type /Page") - pdf.count(b"/Type /Pages") == 1

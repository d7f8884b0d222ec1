"""The explorers' module in a page with no kernel behind it: opens it, draws an explorer, waits until it is drawn."""

import contextlib
import json

from explorer_page import ExplorerPage
from places import ROOT

from every_byte.widget.scripts import one_module
from tools.chromium import chromium

CSS = ROOT / "every_byte" / "widget" / "page" / "explorer.css"
LOAD = """async (source) => {
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  window.explorers = await import(address);
}"""
DRAW = """([spec, value, answer]) => {
  window.view?.close();
  window.changes = [];
  window.view = explorers.createView(spec, (next) => changes.push(next));
  document.body.replaceChildren(view.element);
  view.draw(value, answer);
}"""


@contextlib.contextmanager
def bare_page(**options):
    """A page of 900 x 900 pixels that has loaded the module and its style; options as of `chromium`."""
    with chromium(viewport={"width": 900, "height": 900}, **options) as page:
        page.set_content("<!doctype html><title>An explorer</title><body></body>")
        page.evaluate(LOAD, one_module())
        page.add_style_tag(path=CSS)
        yield page


def state(explorer, **settings):
    """spec, value and answer as a page gets them for these settings."""
    defaults = {symbol: control.default for symbol, control in explorer.controls.items()}
    explorer.value = defaults | settings
    explorer.table()
    found = explorer.get_state()
    return [json.loads(json.dumps(found[key])) for key in ("spec", "value", "answer")]


def draw(page, shown, **answer):
    """A new view of it."""
    spec, value, known = shown
    page.evaluate(DRAW, [spec, value, known | answer])
    return ExplorerPage(page)


def redraw(page, shown, **answer):
    """The same view with other numbers, as when a slider moves."""
    page.evaluate("([spec, value, answer]) => view.draw(value, answer)", [*shown[:2], shown[2] | answer])


def settle(page):
    """Until the observer has told the bars their width, and they are drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def captions(page):
    return [text.strip() for text in page.locator(".eb-bars .eb-caption").all_text_contents()]

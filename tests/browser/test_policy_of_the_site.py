"""Pages of the site under their policy, in Chromium: what comes to them does not run."""

import pytest
from site_pages import FILES, NOTE_REFUSED, PAINTED, book_pages, served, visit

pytestmark = pytest.mark.usefixtures("site")

UNTIL_REFUSED = """() => new Promise((done) => {
  const start = performance.now();
  const look = () => (window.refused.length || performance.now() > start + 10000 ? done() : setTimeout(look, 20));
  look();
})"""
# What one could write into a page, each with the directive that is to refuse it.
INTRUDERS = {
    "script-src-elem": "put('script', { textContent: 'window.ran = 1' })",
    "script-src-attr": 'write(\'<img src="data:," onerror="window.ran = 1">\')',
    # later, since what Chromium evaluates for a test may run text
    "script-src": "setTimeout('window.ran = 1'); setTimeout(() => { try { eval('window.ran = 1') } catch {} })",
    "style-src-attr": "write('<p style=\"color: red\">')",
    "style-src-elem": "put('style', { textContent: 'p {}' })",
    "img-src": "put('img', { src: ELSEWHERE })",
    "connect-src": "fetch(ELSEWHERE).catch(() => {})",
    "frame-src": "put('iframe', { src: ELSEWHERE })",
    "form-action": "put('form', { action: ELSEWHERE }).submit()",
    "base-uri": "put('base', { href: ELSEWHERE })",
}
WITH = """() => {
  const ELSEWHERE = "https://127.0.0.1:9/x";
  const write = (html) => document.body.insertAdjacentHTML("beforeend", html);
  const put = (tag, said) => document.body.appendChild(Object.assign(document.createElement(tag), said));
  INTRUDER;
}"""


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_what_is_written_into_a_page_does_nothing(scheme):
    with served() as address, visit(address if scheme == "http" else FILES) as seen:
        seen.context.add_init_script(NOTE_REFUSED)
        for directive, script in INTRUDERS.items():
            page = seen.open("glossary.html")
            page.evaluate(WITH.replace("INTRUDER", script))
            page.evaluate(UNTIL_REFUSED)  # what playwright waits for is text that the page may not run
            page.evaluate(PAINTED)
            assert {one.split(":")[0] for one in page.evaluate("window.refused")} == {directive}
            assert page.evaluate("window.ran") is None
            assert page.url == seen.root + "glossary.html"
        assert [one for one in seen.wrong if "Content Security Policy" not in one and "csp: " not in one] == []
        assert seen.outside == []
        seen.wrong.clear()


def test_a_style_that_a_script_sets_is_its_own():
    """What `element.style` says is stronger than what was a `style` attribute, as it was before."""
    with visit(FILES) as seen:
        page = seen.open(next(name for name in book_pages() if "gpt" in name))
        assert page.evaluate("""() => {
          const cell = document.querySelector("td[class^='s-']:last-child");
          const before = getComputedStyle(cell).textAlign;
          cell.style.textAlign = "center";
          return [before, getComputedStyle(cell).textAlign];
        }""") == ["right", "center"]

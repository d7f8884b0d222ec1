"""Each page of the built site, opened once in Chromium without a network: what it shows, asks for and lets happen."""

import re

import nbformat
import pytest
from site_pages import CHAPTERS, FILES, NOTE_REFUSED, book_pages, chapter_page, explorers_of, names, served, visit

from book.extensions.folds import IMPORTS
from book.extensions.folds import WORDS as FOLDS
from tools.site import HTML

pytestmark = pytest.mark.usefixtures("site")

WIDE = {"width": 1280, "height": 900}
NARROW = {"a phone": {"width": 360, "height": 740}, "1280 pixels at 200%": {"width": 640, "height": 450}}
LOOK = """() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const text = (item) => item.textContent;
  const copy = (document.querySelector("article") ?? document.body).cloneNode(true);
  copy.querySelectorAll("pre, code, .katex-mathml, table").forEach((item) => item.remove());
  return {
    tags: all(".math.equation > .number").map(text),
    rendered: all(".math .katex-html").length,
    failed: all(".katex-error").length,
    hasItsType: [...document.fonts].some((font) => font.family.includes("KaTeX") && font.status === "loaded"),
    text: text(copy),
    policy: document.querySelector("meta[http-equiv=Content-Security-Policy]")?.content,
    refused: window.refused,
    written: all("[style]:not(.eb *)").filter((one) => !one.style.length).length,  // not set by a script
    explorers: all(".eb-explorer").map((place) => place.dataset.explorer),
    states: all(".eb").map((view) => view.dataset.state),
    stored: all(".eb-stored table").length,
    drawnBy: typeof everyByte === "undefined" ? "" : typeof everyByte.explorer,
    folds: all("details.hide summary").map((item) => item.innerText),
    pdf: all("a[href$='.pdf']:not([href^=http])").map((one) => one.getAttribute("href")),
  };
}"""


@pytest.fixture(scope="module", params=["file", pytest.param("http", marks=pytest.mark.nightly)])
def shown(request) -> dict[str, dict]:
    """What each page shows as it is opened; nothing is asked of others, and nothing goes wrong.

    Chapters between the first and the last are made narrow by night alone: each takes a second.
    """
    if request.param == "file":
        return tour(FILES, {chapter_page(notebook) for notebook in CHAPTERS[1:-1]})
    with served() as address:
        return tour(address, set())


def tour(root: str, only_wide: set[str]) -> dict[str, dict]:
    found = {}
    with visit(root, viewport=WIDE) as seen:
        seen.context.add_init_script(NOTE_REFUSED)
        for name in names():
            page = seen.open(name, until="idle")
            found[name] = page.evaluate(LOOK)
            pre = page.locator("details.hide pre:visible")
            found[name]["unfolded"] = [pre.count()]
            if found[name]["folds"]:
                page.locator("details.hide summary").last.click()
                found[name]["unfolded"].append(pre.count())
            for screen in () if name in only_wide else NARROW.values():
                page.set_viewport_size(screen)
                found[name][screen["width"]] = page.evaluate("document.scrollingElement.scrollWidth")
            page.set_viewport_size(WIDE)
    return found


def test_no_page_asks_for_anything_from_outside_or_complains(shown):
    assert {chapter_page(notebook) for notebook in CHAPTERS} < shown.keys()
    assert len(shown) >= 30


def test_every_page_has_a_policy_without_unsafe_and_nothing_of_it_is_refused(shown):
    for name, found in shown.items():
        assert "unsafe" not in found["policy"], name
        assert re.match("default-src '(self|none)'; ", found["policy"]), name
        assert (found["refused"], found["written"]) == ([], 0), name


@pytest.mark.parametrize("notebook", CHAPTERS, ids=lambda path: path.stem)
def test_every_equation_is_rendered(shown, notebook):
    found = shown[chapter_page(notebook)]
    cells = nbformat.read(notebook, as_version=4).cells
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert found["tags"] == [f"({tag})" for tag in re.findall(r"\\tag\{([\d.]+)\}", prose)]
    assert found["rendered"] >= prose.count("$$") // 2
    assert found["failed"] == 0
    assert "$" not in found["text"]
    assert found["hasItsType"] or not found["rendered"]


@pytest.mark.parametrize("screen", NARROW)
def test_every_page_fits_a_narrow_screen(shown, screen):
    width = NARROW[screen]["width"]
    widths = {name: shown[name][width] for name in book_pages() if width in shown[name]}
    assert len(widths) >= 18
    assert {name: found for name, found in widths.items() if found > width} == {}


@pytest.mark.parametrize("notebook", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_has_its_explorers_alive_with_their_tables_in_reserve(shown, notebook):
    found, named = shown[chapter_page(notebook)], explorers_of(notebook)
    assert found["explorers"] == named
    assert found["states"] == ["ready"] * len(named)
    assert found["stored"] == len(named)
    assert not named or found["drawnBy"] == "function"  # the page's other scripts have names of their own


@pytest.mark.parametrize("notebook", CHAPTERS, ids=lambda path: path.stem)
def test_imports_solutions_checks_and_bodies_are_folded_and_open(shown, notebook):
    found = shown[chapter_page(notebook)]
    tagged = [set(cell.metadata.get("tags", [])) for cell in nbformat.read(notebook, as_version=4).cells]
    named = [FOLDS[tag] for tags in tagged for tag in FOLDS.keys() & tags]
    assert found["folds"] == [IMPORTS, *named]  # the other imports of a chapter are in cells that do more
    assert set(named) == set(FOLDS.values())
    assert found["unfolded"] == [0, 1]


@pytest.mark.parametrize("notebook", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_has_its_pdf(shown, notebook):
    assert shown[chapter_page(notebook)]["pdf"] == [f"../pdf/{notebook.stem}.pdf"]
    pdf = (HTML / "pdf" / f"{notebook.stem}.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert pdf.count(b"/Type /Page\n") >= 8

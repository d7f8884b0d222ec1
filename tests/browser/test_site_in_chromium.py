"""The site in a real Chromium without a network: nothing is asked of anybody, and everybody can read every page."""

import pytest
from site_pages import CHAPTERS, FILES, chapter_page, names, served, visit

from tools.site import NPM

pytestmark = pytest.mark.usefixtures("site")

FRONT_PAGE_BYTES, FRONT_PAGE_REQUESTS = 720_000, 20
MOST_SHIFT = 0.05
SHIFTS = """window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });"""
BAD = {"serious", "critical"}
WIDE = {"width": 1280, "height": 900}
A4 = {"width": 665, "height": 979}  # within the margins of print.css, at 96 pixels an inch
STATES = {
    "index.html#mlp?b=3": "ready",
    "chapters/04_every_byte_of_nanogpt.html#gpt?b=3": "absent",
    "chapters/03_activations_from_outputs.html#block?attention=flash": "failed",
}
"""Explorers at settings whose account the page takes itself, that have none, and that fail."""
# Dark differs from light in colours alone. KaTeX draws in the colour of the text, for eyes alone.
AXE = """(theme) => axe.run({ exclude: [".katex-html"] }, {
  preload: false, resultTypes: ["violations"], ...(theme === "dark" ? { runOnly: ["color-contrast"] } : {}),
})"""


@pytest.fixture(scope="module", params=["http", pytest.param("file", marks=pytest.mark.nightly)])
def root(request):
    """Where the site lies: on a server, or in a folder that is opened."""
    if request.param == "file":
        yield FILES
    else:
        with served() as address:
            yield address


def test_the_search_finds_what_stands_on_a_page(root):
    with visit(root) as seen:
        page = seen.open("search.html?q=logsumexp")
        page.wait_for_selector("#search-results li a")
        found = page.locator("#search-results li a").evaluate_all("links => links.map((link) => link.pathname)")
        assert any(path.endswith("03_activations_from_outputs.html") for path in found)
        page.locator("#search-results li a").first.click()
        page.wait_for_selector("article")


@pytest.mark.parametrize(
    ("query", "title", "address", "words"),
    [
        (
            "logsumexp",
            "3. Activations that save their output > 3.",
            "chapters/03_activations_from_outputs.html#",
            "logsumexp",
        ),
        ("slack", "Glossary > slack", "glossary.html#term-slack", "request"),
        (
            "common misconceptions",
            "0b. Who holds the memory > 0.12 Common",
            "chapters/00b_who_holds_it.html#common-misconceptions",
            " ",
        ),
        ("verified operations", "Verified operations", "verified_operations.html", "operation"),
    ],
)
def test_the_search_names_the_sections_that_it_finds_each_once(root, query, title, address, words):
    with visit(root) as seen:
        page = seen.open(f"search.html?q={query.replace(' ', '+')}")
        page.wait_for_selector(".search-summary:has-text('Found in')")
        items = page.locator("#search-results ul.search > li")
        found = [
            (one.locator("a").inner_text(), one.locator("a").get_attribute("href"), one.locator("p").all_inner_texts())
            for one in items.all()
        ]
        assert len({place for _, place, _ in found}) == len({name for name, _, _ in found}) == len(found) > 0
        (said,) = next(said for name, place, said in found if name.startswith(title) and place.startswith(address))
        assert words in said.lower()
        for _, place, _ in found[:5]:
            page = seen.open(place)
            assert not (anchor := place.partition("#")[2]) or page.locator(f'[id="{anchor}"]').count() == 1


@pytest.mark.parametrize(
    ("query", "address", "n_first"),
    [
        ("out of memory", "chapters/00_start_here.html#reading-the-out-of-memory-message", 2),
        ("sequence parallelism", "chapters/06_many_gpus.html#sequence-parallelism", 2),
        ("bucket", "glossary.html#term-bucket", 1),
        ("gradient checkpointing", "chapters/05_checkpointing.html", 1),
        ("activation checkpointing", "chapters/05_checkpointing.html", 1),
        ("gradient check", "chapters/05_checkpointing.html", 1),
        ("remat", "chapters/05_checkpointing.html", 1),
        ("OOM", "chapters/00_start_here.html#reading-the-out-of-memory-message", 5),
        ("OOM", "chapters/07_does_not_fit.html", 5),
        ("out of memory", "chapters/07_does_not_fit.html", 5),
        ("VRAM", "chapters/00_start_here.html#allocated-reserved-and-the-context", 10),
    ],
)
def test_what_is_named_so_or_says_it_most_is_among_the_first(query, address, n_first):
    with visit(FILES) as seen:
        page = seen.open(f"search.html?q={query.replace(' ', '+')}")
        page.wait_for_selector(".search-summary:has-text('Found in')")
        links = page.locator("#search-results ul.search > li a").evaluate_all(
            "links => links.map((link) => link.getAttribute('href'))"
        )
        assert address in links[:n_first]


def test_results_come_while_one_types(root):
    with visit(root, viewport=WIDE) as seen:
        page = seen.open("glossary.html")
        assert not any("search_sections" in address for address in seen.sizes)
        page.keyboard.press("Control+k")
        page.keyboard.type("checkpointi")
        hits = page.locator(".search-hits li")
        hits.first.wait_for()
        assert page.locator(".search-status").inner_text().startswith("Found in ")
        assert hits.first.locator("a").get_attribute("href").endswith("05_checkpointing.html")
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.pathname").endswith("05_checkpointing.html")
        page.keyboard.press("Enter")
        page.wait_for_url("**/05_checkpointing.html")


def test_the_front_page_is_light():
    with served() as address, visit(address) as seen:
        seen.open("index.html", until="idle")
        assert 0 < sum(seen.sizes.values()) <= FRONT_PAGE_BYTES
        assert len(seen.sizes) <= FRONT_PAGE_REQUESTS


@pytest.mark.parametrize("width", [360, 1280])
def test_little_moves_while_a_page_comes(width):
    with served() as address:
        for name in ("index.html", chapter_page(CHAPTERS[4])):
            with visit(address, viewport={"width": width, "height": 900}) as seen:
                seen.page.add_init_script(SHIFTS)
                assert seen.open(name, until="idle").evaluate("shifted") <= MOST_SHIFT, name


@pytest.mark.parametrize(
    ("theme", "some"),
    [
        ("light", ["index.html", "glossary.html", "search.html", chapter_page(CHAPTERS[-1])]),
        pytest.param("light", None, marks=pytest.mark.nightly),
        pytest.param("dark", None, marks=pytest.mark.nightly),
    ],
    ids=["light, some pages", "light", "dark"],
)
def test_axe_finds_no_serious_barrier(theme, some):
    axe = (NPM / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    found = {}
    still = dict(viewport=WIDE, reduced_motion="reduce")  # nothing is judged half faded in
    with visit(FILES, color_scheme=theme, **still) as seen:
        for name, state in [*((name, None) for name in some or names()), *STATES.items()]:
            page = seen.open(name)
            assert state is None or page.locator(".eb").first.get_attribute("data-state") == state
            page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
            page.evaluate(axe)
            assert page.locator(".eb-explorer:not(:has(.eb))").count() == 0  # they are alive
            result = page.evaluate(AXE, theme)
            assert result["passes"]
            bad = [rule for rule in result["violations"] if rule["impact"] in BAD]
            found |= {f"{name}: {rule['id']}": [node["html"][:200] for node in rule["nodes"][:3]] for rule in bad}
    assert found == {}


@pytest.mark.parametrize("width", [360, 800, 1000])
def test_the_menus_open_where_there_is_no_room_for_them(width):
    with visit(FILES, viewport={"width": width, "height": 740}) as seen:
        page = seen.open(chapter_page(CHAPTERS[4]))
        for kind, link in (("secondary", "Takeaways"), ("primary", "Glossary")):
            if width == 1000 and kind == "primary":
                continue  # it stands beside the text
            assert page.locator("dialog[open]").count() == 0
            page.locator(f".{kind}-toggle:visible").click()
            assert page.locator("dialog[open]").get_by_role("link", name=link).is_visible()
            page.keyboard.press("Escape")
            page.locator("dialog[open]").wait_for(state="detached")
        if width < 1000:
            page.locator(".primary-toggle:visible").click()
            page.locator("dialog[open]").get_by_role("link", name="Glossary").click()
            page.wait_for_url("**/glossary.html")


def test_the_menu_beside_the_text_folds_away():
    with visit(FILES, viewport=WIDE) as seen:
        page = seen.open("index.html")
        for is_there in (False, True):
            page.locator(".primary-toggle:visible").click()
            page.locator("#pst-primary-sidebar").wait_for(state="visible" if is_there else "hidden")


def test_dark_mode_has_a_switch_that_is_remembered():
    with served() as address, visit(address, color_scheme="light", viewport=WIDE) as seen:
        page = seen.open("index.html")
        inks = "['body', '.eb'].map((name) => getComputedStyle(document.querySelector(name)).color)"
        light = page.evaluate(inks)
        page.get_by_role("button", name="Color mode").click()
        page.get_by_role("button", name="Dark").click()
        assert page.locator("html").get_attribute("data-theme") == "dark"
        assert all(dark != ink for dark, ink in zip(page.evaluate(inks), light, strict=True))
        assert seen.open(chapter_page(CHAPTERS[0])).locator("html").get_attribute("data-theme") == "dark"


def test_a_chapter_read_to_the_end_is_marked_until_the_reader_says_forget():
    with served() as address, visit(address, viewport=WIDE) as seen:
        page = seen.open(chapter_page(CHAPTERS[0]))
        assert page.locator(".read-mark").count() == 0
        page.locator(".prev-next-footer").scroll_into_view_if_needed()
        page.wait_for_selector(".read-mark")
        page = seen.open("index.html")
        marked = page.locator(".bd-docs-nav a:has(.read-mark)")
        assert marked.count() == 1
        assert marked.inner_text().endswith(", read")
        page.get_by_role("button", name="Forget what I have read").click()
        assert page.locator(".read-mark").count() == 0
        assert seen.open("index.html").locator(".read-mark").count() == 0


@pytest.mark.nightly
def test_a_drawing_shares_its_printed_page_with_its_call():
    with visit(FILES, viewport=A4) as seen:
        for notebook in CHAPTERS:
            page = seen.open(chapter_page(notebook))
            page.emulate_media(media="print")
            cells = page.locator("div.cell:has(svg.eb-diagram)")
            heights = cells.evaluate_all("cells => cells.map((one) => one.getBoundingClientRect().height)")
            assert all(height < A4["height"] for height in heights), (notebook.stem, heights)
            page.emulate_media(media="screen")

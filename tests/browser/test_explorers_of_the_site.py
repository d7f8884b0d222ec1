"""Explorers on the pages of the built site: alive where the chapters have them, and calm on request."""

import pytest
from explorer_page import ExplorerPage
from site_pages import CHAPTERS, FILES, chapter_page, explorers_of, first_explorer_ms, visit

pytestmark = [pytest.mark.usefixtures("site"), pytest.mark.sampled(3)]

WIDE = {"width": 1280, "height": 900}
# Tables whose right edge lies beyond that of what is around them, which does not scroll.
CUT_OFF = """() => [...document.querySelectorAll("article table")].filter((table) => {
  const { right } = table.getBoundingClientRect();
  for (let box = table.parentElement; box !== document.body; box = box.parentElement) {
    const { overflowX } = getComputedStyle(box);
    if (overflowX === "auto" || overflowX === "scroll") return false;
    if (overflowX !== "visible" && right > box.getBoundingClientRect().right + 1) return true;
  }
  return right > innerWidth + 1;
}).map((table) => table.textContent.trim().slice(0, 60))"""
MOVING = """() => {
  const moves = ({ transitionDuration, animationDuration, scrollBehavior }) =>
    scrollBehavior === "smooth" || `${transitionDuration},${animationDuration}`.split(",").some(parseFloat);
  const parts = [...document.querySelectorAll(".eb, .eb *, html")].flatMap((item) => [[item], [item, "::before"]]);
  return parts.filter((part) => moves(getComputedStyle(...part))).map(([item]) => item.outerHTML.slice(0, 80));
}"""
WITH_EXPLORER = [notebook for notebook in CHAPTERS if explorers_of(notebook)]


@pytest.mark.parametrize("width", [360, *(pytest.param(width, marks=pytest.mark.nightly) for width in (800, 1280))])
def test_without_scripts_the_tables_stand_there_with_all_their_columns(width):
    with visit(FILES, viewport=WIDE | {"width": width}, java_script_enabled=False) as seen:
        for notebook in WITH_EXPLORER:
            seen.page.goto(seen.root + chapter_page(notebook))
            assert seen.page.locator(".eb-explorer table").first.is_visible()
            assert seen.page.evaluate(CUT_OFF) == []
            assert seen.page.get_by_text("This is one setting of an explorer.").first.is_visible()


def test_of_settings_that_are_equally_near_the_one_of_the_same_model_is_shown():
    (notebook,) = [path for path in WITH_EXPLORER if path.stem == "06_many_gpus"]
    with visit(FILES, viewport=WIDE) as seen:
        seen.open(f"{chapter_page(notebook)}#ranks?model=gpt2&t=8")  # t = 8 is stored of another model
        explorer = ExplorerPage(seen.page)
        assert (explorer.state, explorer.value["model"], explorer.value["t"]) == ("absent", "gpt2", "8")
        explorer.root.locator(".eb-jump").click()
        assert explorer.state == "ready"
        assert explorer.value["model"] == "gpt2"


@pytest.mark.parametrize("width", [360, 1280])
def test_without_scripts_no_button_stands_there(width):
    for has_scripts in (True, False):
        with visit(FILES, viewport=WIDE | {"width": width}, java_script_enabled=has_scripts) as seen:
            seen.page.goto(seen.root + chapter_page(WITH_EXPLORER[0]))
            assert seen.page.evaluate("getComputedStyle(document.body).getPropertyValue('--pst-color-border')")
            shown = seen.page.locator("button >> visible=true").count()
            assert shown > 3 if has_scripts else shown == 0


def test_without_scripts_nobody_is_told_to_move_a_slider():
    for has_scripts in (True, False):
        with visit(FILES, viewport=WIDE, java_script_enabled=has_scripts) as seen:
            seen.page.goto(seen.root + "index.html")
            assert seen.page.get_by_text("Move a slider").is_visible() == has_scripts


@pytest.mark.nightly
def test_on_paper_the_tables_stand_there():
    with visit(FILES, viewport=WIDE) as seen:
        for notebook in WITH_EXPLORER:
            page = seen.open(chapter_page(notebook))
            alive, table = page.locator(".eb"), page.locator(".eb-stored table").first
            assert (alive.is_visible(), table.is_visible()) == (True, False)
            page.emulate_media(media="print")
            assert (alive.is_visible(), table.is_visible()) == (False, True)
            page.emulate_media(media="screen")


def test_the_first_explorer_is_of_use():
    with visit(FILES, viewport=WIDE) as seen:
        assert first_explorer_ms(seen) > 0  # how much it is, benchmarks/page.py prints
        shown = ExplorerPage(seen.page)
        shown.control("b").press("ArrowRight")
        assert shown.value["b"] == 4


def test_a_setting_survives_that_the_page_is_loaded_again():
    with visit(FILES, viewport=WIDE) as seen:
        page = seen.open("index.html")
        shown = ExplorerPage(page)
        shown.control("s").press("Home")
        shown.control("activation").select_option("tanh")
        chosen = shown.value
        assert (chosen["s"], chosen["activation"]) == (128, "tanh")
        page.wait_for_url(lambda url: "s=128" in url and "activation=tanh" in url)
        page.reload()
        assert ExplorerPage(page).value == chosen
        again = seen.context.new_page()
        again.goto(page.url)
        assert ExplorerPage(again).value == chosen


def test_two_pages_keep_their_settings_apart():
    with visit(FILES, viewport=WIDE) as seen:
        page = seen.open(chapter_page(WITH_EXPLORER[0]))
        start = ExplorerPage(page).value
        page.goto(page.url + "#another?b=1&d=1")
        page.reload()
        assert ExplorerPage(page).value == start


@pytest.mark.nightly
def test_nothing_moves_for_a_reader_who_asks_for_that():
    with visit(FILES, viewport=WIDE) as seen:
        assert seen.open("index.html").evaluate(MOVING) != []
    with visit(FILES, viewport=WIDE, reduced_motion="reduce") as seen:
        for notebook in WITH_EXPLORER:
            assert seen.open(chapter_page(notebook)).evaluate(MOVING) == []

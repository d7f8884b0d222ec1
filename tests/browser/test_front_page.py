"""The front page of the built site: three lists answer whether a training run fits; and without scripts one does."""

import json
from itertools import product

import pytest
from site_pages import FILES, served, visit

from book.extensions.front_page import answer, owners
from tools.front_page import BATCHES, CARDS, MODELS, STORED

pytestmark = pytest.mark.usefixtures("site")

BOOK = json.loads(STORED.read_text(encoding="utf-8"))
EVERY = [(model, str(batch), card) for model, batch, card in product(MODELS, BATCHES, CARDS)]
WIDE = {"width": 1280, "height": 900}
OUTLINE = "document.querySelector('.fit svg path:last-child').getAttribute('d')"


def told(page) -> tuple[str, list[str]]:
    """The answer, and the owners with their bytes."""
    return page.locator(".fit-answer").inner_html(), page.locator(".fit-owners li").all_inner_texts()


def expected(model: str, batch: str, card: str) -> tuple[str, list[str]]:
    at = BOOK["models"][model]["at"][f"{batch} {card}"]
    mountain = BOOK["models"][model]["mountains"][at["mountain"]]
    return answer(at, mountain), [f"{name} {text}" for name, text, _ in owners(mountain)]


def choose(page, model: str, batch: str, card: str) -> None:
    for name, value in (("model", model), ("batch", batch), ("card", card)):
        page.locator(f".fit select[name={name}]").select_option(value)
    page.wait_for_function(
        "words => document.querySelector('.fit-answer').innerHTML === words", arg=expected(model, batch, card)[0]
    )


def test_every_combination_is_answered_as_it_is_stored():
    with served() as address, visit(address, viewport=WIDE) as seen:
        page = seen.open("index.html")
        model, batch, card = BOOK["default"]
        assert told(page) == expected(model, str(batch), card)
        for combination in EVERY:
            choose(page, *combination)
            assert told(page) == expected(*combination)


def test_a_page_that_is_opened_as_a_file_answers_too():
    with visit(FILES, viewport=WIDE) as seen:
        page = seen.open("index.html")
        before = page.evaluate(OUTLINE)
        choose(page, *EVERY[-1])
        assert page.evaluate(OUTLINE) != before


def test_the_keyboard_is_enough():
    with served() as address, visit(address, viewport=WIDE) as seen:
        page = seen.open("index.html")
        page.locator(".fit select[name=batch]").focus()
        before = page.locator(".fit-answer").inner_text()
        page.keyboard.press("End")
        page.wait_for_function("before => document.querySelector('.fit-answer').innerText !== before", arg=before)
        assert page.locator(".fit-answer").get_attribute("aria-live") == "polite"


def test_without_scripts_it_shows_one_answer_and_all_of_them_in_a_table():
    with visit(FILES, viewport=WIDE, java_script_enabled=False) as seen:
        page = seen.page
        page.goto(FILES + "index.html")
        assert page.locator(".fit-controls").is_hidden()
        assert page.locator(".fit-fixed").is_visible()
        page.locator(".fit-table summary").click()
        assert page.locator(".fit-table tbody tr").count() == len(MODELS)


@pytest.mark.parametrize("width", [360, 768, 1280, 1920])
def test_the_hook_the_answer_and_the_picture_are_on_the_first_screens(width):
    with visit(FILES, viewport={"width": width, "height": 800}) as seen:
        page = seen.open("index.html")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        tops = {
            name: page.locator(name).first.bounding_box()["y"]
            for name in ("main .hook", ".fit-controls", ".fit-answer", ".fit-plot", ".doors")
        }
        assert list(tops.values()) == sorted(tops.values())
        assert tops[".fit-answer"] < 800
        assert tops[".fit-plot"] < 900
        for label in page.locator(".fit-plot span > span").all():
            box = label.bounding_box()
            assert 0 <= box["x"] <= box["x"] + box["width"] <= width

"""The moving map in a bare page: what it shows at each request is the allocator's; keys, other settings, play."""

import pytest
from bare_page import bare_page, draw, redraw, settle, state

from every_byte.units import short
from utils.experiments.varying_lengths import SETTINGS, replayed
from utils.explorers.fragmentation import fragmentation_explorer

# Of each row of the map its label, and the titles of its blocks, free pieces and gaps; what goes on in another line
# is there twice.
MAP = """() => [...document.querySelectorAll(".eb-map > g")].map((group) => [
  group.querySelector(".eb-caption").textContent,
  [...group.querySelectorAll(":scope > g")].map((part) => part.querySelector("title").textContent),
])"""
SPAN = """() => {
  const parts = [...document.querySelectorAll(".eb-map rect, .eb-map text")];
  const boxes = parts.map((part) => part.getBoundingClientRect());
  return [Math.min(...boxes.map(({ left }) => left)), Math.max(...boxes.map(({ right }) => right))];
}"""


@pytest.fixture(scope="module")
def page():
    with bare_page() as page:
        yield page


@pytest.fixture(scope="module")
def shown():
    """spec, value and answer of each setting."""
    explorer = fragmentation_explorer()
    return {name: state(explorer, conf=text, s=6720) for name, text in SETTINGS.items()}


def slider(page):
    return page.locator("[data-request]")


def said(page) -> str:
    return page.locator(".eb-said").inner_text()


def in_use(page) -> dict[str, int]:
    items = page.locator(".eb-in-use li").all()
    return {item.get_attribute("data-category"): int(item.get_attribute("data-bytes")) for item in items}


@pytest.mark.parametrize("name", ["default", "expandable_segments", "max_split_size"])
def test_each_request_shows_what_the_allocator_holds(page, shown, name):
    draw(page, shown[name])
    replay, found = replayed(6720, SETTINGS[name]), shown[name][2]["map"]
    assert slider(page).get_attribute("max") == str(len(replay.moments))
    slider(page).focus()
    page.keyboard.press("Home")
    for moment, step in zip(replay.moments, found["steps"], strict=True):
        assert said(page) == step["said"] == slider(page).get_attribute("aria-valuetext")
        assert sum(in_use(page).values()) == moment.allocated_bytes
        pieces = moment.free_pieces
        free = f"{short(sum(pieces))} free in {len(pieces)} piece" if pieces else "nothing free"
        words = page.locator(".eb-whole").inner_text()
        assert free in words
        assert words.endswith(f"The driver has {short(moment.driver_bytes)} left.")
        assert page.locator(".eb-map").get_attribute("aria-label") == words
        asked, *rows, driver = page.evaluate(MAP)
        assert asked[0] == "asked for"
        assert driver[0] == "driver has"
        assert len(rows) == len(moment.rows)
        for (_, parts), row in zip(rows, moment.rows, strict=True):
            assert {part.partition(": ")[2] for part in parts} == {short(piece.n_bytes) for piece in row}
        page.keyboard.press("ArrowRight")


def test_the_keys_reach_both_ends(page, shown):
    draw(page, shown["max_split_size"])
    slider(page).focus()
    for key, number in (("Home", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", 52), ("ArrowLeft", 51)):
        page.keyboard.press(key)
        assert said(page).startswith(f"Request {number} of 52")


def test_at_first_the_last_request_is_shown_and_another_setting_stays_at_the_chosen_one(page, shown):
    draw(page, shown["default"])
    assert said(page).startswith("Request 17 of 52")
    assert page.locator(".eb-refused").count() == 1
    redraw(page, shown["expandable_segments"])
    assert said(page).startswith("Request 51 of 52")
    slider(page).focus()
    page.keyboard.press("Home")
    for _ in range(19):
        page.keyboard.press("ArrowRight")
    redraw(page, shown["max_split_size"])
    assert said(page).startswith("Request 20 of 52")
    redraw(page, shown["default"])
    assert said(page).startswith("Request 17 of 52")  # there is no later one
    redraw(page, shown["max_split_size"])
    assert said(page).startswith("Request 20 of 52")


def test_the_request_and_its_block_are_framed(page, shown):
    draw(page, shown["max_split_size"])
    assert page.locator(".eb-new").count() == 2
    draw(page, shown["default"])
    assert page.locator(".eb-new").count() == 1  # it has none
    assert page.locator(".eb-refused .eb-new").count() == 1


def test_a_line_ends_where_the_drawing_does_at_any_width(page, shown):
    for width in (900, 360):
        page.set_viewport_size({"width": width, "height": 900})
        for name in ("default", "expandable_segments"):
            draw(page, shown[name])
            settle(page)
            left, right = page.evaluate(SPAN)
            card = page.locator(".eb").bounding_box()
            assert card["x"] <= left < right <= card["x"] + card["width"] - 10
    page.set_viewport_size({"width": 900, "height": 900})


def test_play_goes_on_by_itself_until_it_is_pressed_again(page, shown):
    draw(page, shown["default"])
    button = page.get_by_role("button", name="play")
    button.click()  # from the end, so from the beginning
    page.wait_for_function("() => document.querySelector('.eb-said').textContent.startsWith('Request 3 of')")
    page.get_by_role("button", name="pause").click()
    stopped = said(page)
    page.wait_for_timeout(900)
    assert said(page) == stopped
    button.click()
    slider(page).press("End")  # whoever takes the slider takes over
    page.wait_for_timeout(900)
    assert said(page).startswith("Request 17 of 52")
    assert page.get_by_role("button", name="play").is_visible()


def test_nothing_plays_for_a_reader_who_asks_for_calm(shown):
    with bare_page(reduced_motion="reduce") as calm:
        draw(calm, shown["default"])
        assert not calm.get_by_role("button", name="play").is_visible()
        slider(calm).press("ArrowLeft")
        assert said(calm).startswith("Request 16 of 52")


def test_an_explorer_without_a_map_has_none(page, shown):
    spec, value, answer = shown["default"]
    draw(page, [spec, value, answer | {"map": None}])
    assert page.locator(".eb-moving").is_hidden()

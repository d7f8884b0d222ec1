"""The explorer of fragmentation in JupyterLab: keys move the map, another setting asks the kernel, and soon answers."""

import pytest
from explorer_page import ExplorerPage

from utils.experiments.varying_lengths import SETTINGS

pytestmark = pytest.mark.nightly  # by day the explorer of chapter 2 stands in JupyterLab

CELL = (
    "from utils.explorers.fragmentation import fragmentation_explorer\n\nexplorer = fragmentation_explorer()\nexplorer"
)
OPENING = {"conf": "not set", "s": 5760}
SOON_MS = 1_000  # on a busy machine; alone it takes some 50
STEP_MS = 100
# Presses an arrow on the map's slider as often as told: milliseconds from the key to the drawing, the longest.
STEPS = """async (slider) => {
  const frame = () => new Promise(requestAnimationFrame);
  let longest = 0;
  for (let n = 1; n <= 40; n++) {
    const start = performance.now();
    slider.value = n;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    longest = Math.max(longest, performance.now() - start);
    await frame();
  }
  return longest;
}"""
CHANGE = """async (root, text) => {
  const list = root.querySelector('[data-symbol="conf"]');
  const start = performance.now();
  list.value = text;
  list.dispatchEvent(new Event("change", { bubbles: true }));
  const isThere = () => root.dataset.state === "ready" && JSON.parse(root.dataset.value).conf === text;
  while (!isThere()) await new Promise(requestAnimationFrame);
  return performance.now() - start;
}"""


@pytest.fixture
def explorer(page):
    explorer = ExplorerPage(page)
    explorer.set(OPENING)
    return explorer


def said(explorer) -> str:
    return explorer.root.locator(".eb-said").inner_text()


def test_it_opens_where_the_run_dies(explorer):
    assert explorer.root.locator(".eb-fit").get_attribute("data-fits") == "false"
    assert said(explorer).startswith("Request 49 of 52 (batch 3, backward)")
    assert explorer.root.locator(".eb-refused").count() == 1
    assert "agree in every term: 946,864,144 bytes" in explorer.status


def test_keys_move_the_map_and_jupyterlab_keeps_out(explorer):
    slider = explorer.root.locator("[data-request]")
    slider.focus()
    for key, number in (("Home", 1), ("ArrowRight", 2), ("ArrowDown", 1), ("End", 49), ("ArrowLeft", 48)):
        explorer.page.keyboard.press(key)
        assert said(explorer).startswith(f"Request {number} of 52")
        assert slider.evaluate("node => node === document.activeElement")


def test_a_step_is_drawn_at_once_and_another_setting_soon(explorer):
    assert explorer.root.locator("[data-request]").evaluate(STEPS) < STEP_MS
    for text in SETTINGS.values():
        assert explorer.root.evaluate(CHANGE, text or "not set") < SOON_MS
        assert said(explorer).startswith("Request 40 of 52")  # where it was

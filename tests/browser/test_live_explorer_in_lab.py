"""An explorer that measures, in JupyterLab: when the slider rests, once, with the newest setting; again on a button.

A simulated GPU stands for the machine's own, with a name of its own; each account takes it 0.3 s. How often it was
opened, it says in the remark.
"""

import re

import pytest
from explorer_page import RUSH, ExplorerPage
from places import ROOT
from stand_in import BADGE, NAME, OPTION

CELL = f"""import sys
sys.path.insert(0, {str(ROOT / "tests" / "helpers")!r})
from stand_in import install
from utils.explorers.mlp import mlp_explorer

install(takes_s=0.3)
explorer = mlp_explorer()
explorer"""
AGREE = "Predicted and measured agree in every term: "
ALL_AGREE = "Predicted, simulated and measured agree in every term: "
BUSY = f"Measuring on {NAME}…"
FIGURES = """(root) => [...root.querySelectorAll("tr[data-term]")].map(
  ({ dataset: { predicted, beside, accounted } }) => [predicted, beside ?? null, accounted],
)"""
# Moves the batch's slider back and forth faster than it ever rests; notes each state in which the page is meanwhile.
MOVES = """async (root) => {
  const slider = root.querySelector('[data-symbol="b"]');
  const seen = [];
  for (let i = 0; i < 20; i++) {
    slider.value = 3 + (i % 3);
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((done) => setTimeout(done, 60));
    seen.push([root.dataset.state, root.getAttribute("aria-busy"), root.querySelector(".eb-status").textContent]);
  }
  return [seen, Number(root.querySelector('tr[data-term="total"]').dataset.predicted)];
}"""


@pytest.fixture
def live(explorer) -> ExplorerPage:
    """The page's explorer at the start, measured."""
    root = explorer.root
    root.locator('[data-symbol="gpu"]').select_option(OPTION)
    if root.locator('[data-symbol="beside"]').is_checked():
        root.locator('[data-symbol="beside"]').uncheck()
    type_in(explorer, b=2, s=4096, d=1024)
    explorer.settle()
    assert explorer.state == "ready"
    return explorer


def type_in(explorer, **numbers) -> None:
    for symbol, number in numbers.items():
        field = explorer.root.locator(f'[data-exact="{symbol}"]')
        field.fill(str(number))
        field.press("Enter")


def n_opened(explorer) -> int:
    said = explorer.root.locator(".eb-remark").inner_text()
    return int(re.search(r"Opened (\d+) times", said)[1])


def figures(explorer) -> list[list]:
    return explorer.root.evaluate(FIGURES)


def head(explorer) -> list[str]:
    return explorer.root.locator("thead th").all_text_contents()


def test_it_is_chosen_by_keys_and_says_measured(explorer):
    select = explorer.control("gpu")
    assert explorer.root.locator(".eb-again").is_hidden()
    assert explorer.control("beside").is_hidden()
    select.focus()
    select.press("End")
    assert explorer.value["gpu"] == OPTION
    assert (explorer.state, explorer.status) == ("waiting", BUSY)
    assert explorer.root.get_attribute("aria-busy") == "true"
    explorer.settle()
    assert explorer.root.get_attribute("aria-busy") == "false"
    assert explorer.root.locator(".eb-badge").inner_text() == BADGE
    assert head(explorer) == ["term", "formula", "predicted bytes", "measured bytes", "difference"]
    assert all(predicted == measured for predicted, _, measured in figures(explorer))
    assert explorer.status.startswith(AGREE)


def test_while_the_slider_moves_it_predicts_and_measures_when_it_rests(live):
    before = n_opened(live)
    seen, predicted = live.page.evaluate(MOVES, live.root.element_handle())
    assert {(state, busy, said) for state, busy, said in seen} == {("waiting", "true", BUSY)}
    live.settle()
    assert n_opened(live) == before + 1
    assert live.total()[1] == live.total()[2] == predicted


def test_the_newest_setting_wins(live):
    type_in(live, b=3)  # where the slider does not stop
    live.settle()
    assert set(live.page.evaluate(RUSH, live.root.element_handle())) == {32}
    before = n_opened(live)
    live.control("b").press("ArrowLeft")
    live.page.wait_for_timeout(500)  # it has rested: this one is being measured
    live.control("b").press("ArrowLeft")
    live.settle()
    assert live.value["b"] == 8
    assert n_opened(live) == before + 2
    assert all(predicted == measured for predicted, _, measured in figures(live))


@pytest.mark.parametrize("key", ["Enter", " ", None])
def test_it_is_measured_again_on_a_button(live, key):
    button = live.root.get_by_role("button", name="measure again")
    before, said = n_opened(live), live.status
    if key is None:
        button.click()
    else:
        button.press(key)
    assert (live.state, live.status) == ("waiting", BUSY)
    live.page.wait_for_timeout(100)
    live.settle()
    assert (n_opened(live), live.status) == (before + 1, said)
    assert button.evaluate("button => button === document.activeElement")
    assert live.page.locator(".jp-NotebookPanel .jp-Cell").count() == 1


def test_beside_it_the_same_card_simulated(live):
    live.control("beside").click()
    live.settle()
    assert head(live) == ["term", "formula", "predicted bytes", "simulated bytes", "measured bytes", "difference"]
    found = figures(live)
    assert len(found) == 4
    assert all(predicted == simulated == measured for predicted, simulated, measured in found)
    assert live.status == f"{ALL_AGREE}{int(found[-1][0]):,} bytes."
    kinds = ["eb-predicted", "eb-beside", "eb-accounted"]
    bars = live.root.locator(".eb-bars .eb-bar").evaluate_all("all => all.map((bar) => bar.classList[1])")
    assert bars == kinds
    boxes = [live.root.locator(f".eb-bar.{kind}").bounding_box() for kind in kinds]
    assert boxes[0]["y"] < boxes[1]["y"] < boxes[2]["y"]
    assert len({round(box["width"]) for box in boxes}) == 1
    live.control("beside").press("Space")
    live.settle()
    assert live.root.locator(".eb-bar").count() == 2
    assert all(simulated is None for _, simulated, _ in figures(live))


def test_out_of_memory_is_a_sentence_three_times_and_the_next_setting_works(live):
    for n in range(3):
        type_in(live, s=16384, d=16384, b=250 + n)
        live.settle()
        assert live.state == "failed"
        assert live.status.startswith("CUDA out of memory")
        type_in(live, b=1 + n, s=128, d=64)
        live.settle()
        assert live.state == "ready"
        assert all(predicted == measured for predicted, _, measured in figures(live))


def test_back_on_a_simulated_gpu_each_move_is_accounted_for(live):
    select = live.control("gpu")
    select.press("Home")
    live.settle()
    assert live.value["gpu"] == "a100-80gb"
    assert live.root.locator(".eb-badge").inner_text() == "simulated on a100-80gb, PyTorch 2.13 rules"
    assert head(live)[3] == "simulated bytes"
    assert live.root.locator(".eb-again").is_hidden()
    assert live.control("beside").is_hidden()
    assert live.status.startswith("Predicted and simulated agree")
    assert not live.root.locator(".eb-remark").is_visible()
    live.control("b").press("ArrowRight")
    live.settle()
    assert live.value["b"] == 4

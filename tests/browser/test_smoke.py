"""What `make test` looks at in a browser: each explorer on a page of its own, and the front page."""

import shutil
from contextlib import contextmanager

import pytest
from explorer_files import write
from explorer_page import ExplorerPage

from tools.chromium import chromium
from tools.site import build_one
from utils.explorers.gallery import GALLERY

pytestmark = pytest.mark.smoke

ROWS = """root => [...root.querySelectorAll("tr[data-term][data-accounted]")].map(
  ({ dataset: { predicted, accounted } }) => [predicted ?? "", accounted],
)"""


@contextmanager
def opened(address: str):
    """A page without a network; whatever it asks of others or complains of fails the test."""
    with chromium(viewport={"width": 1280, "height": 900}, offline=True) as page:
        wrong = []
        page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith("file:") else wrong.append(request.url))
        page.goto(address)
        explorer = ExplorerPage(page)
        explorer.settle()
        yield explorer
        assert wrong == []


def answers(explorer: ExplorerPage) -> None:
    """With its account the prediction stands beside it; where a slider moves, a prediction or a sentence follows."""
    assert explorer.state == "ready"
    rows = explorer.root.evaluate(ROWS)
    assert any(int(accounted) for _, accounted in rows)
    assert all(predicted in ("", accounted) for predicted, accounted in rows)
    slider = explorer.root.locator("input[type=range][data-symbol]:enabled").first
    symbol, before = slider.get_attribute("data-symbol"), explorer.value
    slider.press("ArrowRight")
    if explorer.value == before:  # it stood at its end
        slider.press("ArrowLeft")
    explorer.settle()
    assert explorer.value[symbol] != before[symbol]
    assert explorer.state in ("ready", "absent")
    assert explorer.status or explorer.state == "ready"


@pytest.mark.parametrize("name", GALLERY)
def test_an_explorer_answers(name, tmp_path):
    address, _, _ = write(tmp_path, name, n_stored=1)
    with opened(address) as explorer:
        answers(explorer)


def test_the_front_page_is_there_and_its_explorer_answers():
    if shutil.which("npm") is None:
        pytest.skip("needs npm, for the site's mathematics and type")
    with opened(build_one("index").as_uri()) as explorer:
        page = explorer.page
        assert page.title().startswith("Every Byte")
        assert page.get_by_role("heading", level=1).inner_text().startswith("Every Byte")
        answers(explorer)

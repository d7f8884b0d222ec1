"""Where a page takes accounts itself, it says what the kernel says, to the byte, at settings not learned from."""

import pytest
from in_node import needs_node
from page_answers import answers_of_the_page, differs, random_settings

from every_byte.widget.explorer import to_page
from every_byte.widget.gpus import for_a_page
from tools.sequences.stored import stored_sequences
from utils.explorers.gallery import GALLERY

pytestmark = [needs_node, pytest.mark.filterwarnings("ignore")]
NAMES = [name for name in GALLERY if stored_sequences(name)]
MOST_UNKNOWN = 0


def hold(name: str, n: int, seed: int) -> None:
    """So many drawn settings, of which few may be unknown to the page, and none answered otherwise."""
    with for_a_page():
        explorer = GALLERY[name].make()
    settings = random_settings(explorer, n, seed)
    found = answers_of_the_page(name, explorer, stored_sequences(name), settings)
    asked = [(one, answer) for one, answer in zip(settings, found, strict=True) if answer is not None]
    wrong = [f"{to_page(one, explorer)}: {said}" for one, a in asked if (said := differs(a, explorer.answer_at(one)))]
    assert not wrong, f"{len(wrong)} of {n}:\n" + "\n".join(wrong)
    assert n - len(asked) <= MOST_UNKNOWN * n


@pytest.mark.parametrize("name", NAMES)
def test_some_settings(name):
    hold(name, 20, seed=20)


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_three_hundred_settings(name):
    hold(name, 300, seed=300)


@pytest.mark.parametrize("name", NAMES)
def test_the_largest_settings_end_at_the_kernels_request(name):
    with for_a_page():
        explorer = GALLERY[name].make()
    start = {symbol: control.default for symbol, control in explorer.controls.items()}
    settings = [start | dict(large) for large in GALLERY[name].large]
    for one, answer in zip(
        settings, answers_of_the_page(name, explorer, stored_sequences(name), settings), strict=True
    ):
        kernel = explorer.answer_at(one)
        assert kernel["error"].startswith("CUDA out of memory") or name == "phases"  # which is small at its largest
        assert not differs(answer, kernel)

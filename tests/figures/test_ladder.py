"""The ladder's bars: lengths, numbers, the line of the card, and what has a colour."""

import pytest
from matplotlib.patches import Rectangle

from every_byte.units import GiB
from utils.figures.ladder import ladder

PEAKS = {
    "first": ({"parameters": 3 * GiB, "activations": 4 * GiB, "outputs": GiB, "temporaries": GiB}, "backward, loss"),
    "second": ({"parameters": 3 * GiB, "gradients": GiB // 2}, "optimizer"),
}


@pytest.fixture
def drawn():
    return ladder("A title", PEAKS, ("a card", 5 * GiB)).axes[0]


def test_bars_are_as_long_as_their_parts(drawn):
    bars = [patch for patch in drawn.patches if isinstance(patch, Rectangle) and patch.get_width()]
    assert [bar.get_width() for bar in bars] == [3, 4, 2, 3, 0.5]  # what has no colour of its own is with temporaries
    assert bars[2].get_x() == 7


def test_each_bar_says_its_bytes_and_its_place_beyond_the_line(drawn):
    said = {text.get_text().strip(): text.get_position()[0] for text in drawn.texts}
    assert said == {"9.00  backward, loss": 9, "3.50  optimizer": 5, "a card": 5}
    assert drawn.lines[0].get_xdata()[0] == 5

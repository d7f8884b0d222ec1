"""The checkpoint explorer in JupyterLab with its kernel: busy at once, the newest setting wins, as Python computes."""

import pytest
from explorer_page import MOVE, RUSH

from utils.experiments.checkpointed_step import CheckpointedStep
from utils.explorers.checkpoint import remark

pytestmark = pytest.mark.nightly  # by day the explorer of chapter 2 stands in JupyterLab

CELL = "from utils.explorers.checkpoint import checkpoint_explorer\n\nexplorer = checkpoint_explorer()\nexplorer"
N_MOVES = 5


def test_it_shows_what_python_computes(explorer):
    small = {"b": 2, "s": 256}
    for changed in ({"regions": "k segments", "k": 5}, {"policy": "keep matmuls", "attention": "explicit"}):
        explorer.set(explorer.value | small | changed)
        expected = CheckpointedStep(**explorer.value).run()
        for (stage, predicted, simulated), terms in zip(
            explorer.stages(), expected.run.account().values(), strict=True
        ):
            assert simulated == predicted == sum(terms.values()), stage
        assert explorer.root.locator(".eb-remark").inner_text() == remark(expected)


def test_a_k_that_cannot_be_is_a_sentence_and_the_next_one_works(explorer):
    explorer.set(explorer.value | {"regions": "k segments", "k": 13})
    assert explorer.state == "failed"
    assert explorer.status.startswith("k may be the number of blocks at most: got k=13, and the model has 12.")
    explorer.set(explorer.value | {"k": 12})
    assert explorer.state == "ready"
    assert explorer.root.locator('.eb-stage [data-stage="end of forward"]').get_attribute("data-difference") == "0"


def test_the_newest_setting_wins(explorer):
    explorer.set(explorer.value | {"b": 3})  # where the slider does not stop
    assert set(explorer.page.evaluate(RUSH, explorer.root.element_handle())) == {32}
    assert explorer.value["b"] == 32


def test_it_is_busy_at_once_and_answers_soon(explorer, capsys):
    """Two runs for a new setting: GPT-2 small within a second on a free core. What is held is far more generous."""
    explorer.set(explorer.value | {"b": 12, "s": 1024, "regions": "every block", "policy": "none"})
    times = [explorer.page.evaluate(MOVE, explorer.root.element_handle()) for _ in range(N_MOVES)]
    busy, ready = zip(*times, strict=True)
    with capsys.disabled():
        print(f"\nbusy after {min(busy):.0f} ms; answered after {min(ready):.0f} to {max(ready):.0f} ms")
    assert min(busy) < 100
    assert min(ready) < 8000

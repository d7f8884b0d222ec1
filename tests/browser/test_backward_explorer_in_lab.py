"""The explorer of the chapter on backward in JupyterLab: it shows, for each phase and term, Python's bytes."""

import pytest
from explorer_page import ExplorerPage

pytestmark = pytest.mark.nightly  # by day the explorer of chapter 2 stands in JupyterLab

CELL = "from utils.explorers.phases import phases_explorer\n\nexplorer = phases_explorer()\nexplorer"
PHASES = ["model to device", "iteration 1", "forward", "backward", "step", "zero_grad"]
N_SETTINGS = 3


@pytest.fixture
def explorer(page):
    explorer = ExplorerPage(page)
    explorer.settle()
    for phase in PHASES:
        explorer.open(phase)
    return explorer


def test_it_opens_on_the_published_figures(explorer):
    published = [8_135_168, 41_445_376, 46_616_576, 49_580_544, 49_580_544, 41_445_376]
    assert explorer.stages() == [(phase, n, n) for phase, n in zip(PHASES, published, strict=True)]
    assert "agree in every term of every stage" in explorer.status


@pytest.mark.parametrize("n", [N_SETTINGS, pytest.param(12, marks=pytest.mark.nightly)])
def test_random_settings_show_what_python_computes(explorer, python, n):
    settings = [s | {"f": min(s["f"], s["L"])} for s in python.random_settings(n, seed=1)]
    for setting, (rows, error) in zip(settings, python.expected(settings), strict=True):
        explorer.set(setting)
        assert error == ""
        assert explorer.rows() == rows, setting
        assert all(predicted == simulated for _, predicted, simulated in rows), setting


def test_more_frozen_layers_than_there_are_gives_a_sentence(explorer):
    explorer.set(explorer.value | {"L": 3, "f": 9, "frozen": "the last f"})
    assert explorer.state == "failed"
    assert "f, the number of frozen layers, must be from 1 to L: got f=9, L=3; nearest: 3." in explorer.status
    explorer.set(explorer.value | {"f": 3})
    assert explorer.state == "ready"
    assert "agree in every term" in explorer.status


def test_keys_move_the_batch_and_the_phases_follow(explorer, python):
    explorer.set(explorer.value | {"L": 20, "f": 1, "frozen": "none", "b": 64})
    explorer.control("b").focus()
    for key, value in (("ArrowRight", 128), ("ArrowRight", 256), ("ArrowLeft", 128)):
        explorer.page.keyboard.press(key)
        explorer.settle()
        assert explorer.value["b"] == value
        [(rows, _)] = python.expected([explorer.value])
        assert explorer.rows() == rows

"""The explorer of the chapter on activations in JupyterLab: a block's parts, and curves with their folds."""

import pytest
from explorer_page import ExplorerPage

pytestmark = pytest.mark.nightly  # by day the explorer of chapter 2 stands in JupyterLab

CELL = "from utils.explorers.block import block_explorer\n\nexplorer = block_explorer()\nexplorer"
PARTS = ["norm1", "attention", "norm2", "mlp"]
N_SETTINGS = 4
OPENING = {
    "b": 2,
    "s": 4096,
    "d": 1024,
    "a": 2,
    "activation": "GELU",
    "attention": "efficient",
    "dropout": "off",
    "dtype": "bfloat16",
    "gpu": "a100-80gb",
}


@pytest.fixture
def explorer(page):
    explorer = ExplorerPage(page)
    explorer.set(OPENING)
    for part in PARTS:
        explorer.open(part)
    return explorer


def test_it_opens_on_the_published_figure(explorer):
    parts = [16_842_752, 83_951_632, 16_842_752, 150_994_944]
    assert explorer.stages() == [(part, n, n) for part, n in zip(PARTS, parts, strict=True)]
    assert explorer.total()[1:] == (268_632_080, 268_632_080)
    assert "agree in every term of every part: 268,632,080 bytes in total" in explorer.status


def test_relu_is_the_other_published_figure(explorer):
    explorer.set(OPENING | {"activation": "ReLU"})
    assert explorer.total()[1:] == (201_523_216, 201_523_216)


@pytest.mark.parametrize("n", [N_SETTINGS, pytest.param(12, marks=pytest.mark.nightly)])
def test_random_settings_show_what_python_computes(explorer, python, n):
    settings = python.random_settings(n, seed=3)
    for setting in settings:
        setting["d"] = 64 * setting["a"] * (1 + setting["d"] % 5)  # a width that the heads divide
        setting["b"], setting["s"] = min(setting["b"], 16), min(setting["s"], 4096)
    n_exact = 0
    for setting, (rows, error) in zip(settings, python.expected(settings), strict=True):
        explorer.set(setting)
        for part in PARTS:
            explorer.open(part)
        assert explorer.rows() == rows, setting
        if error:
            assert error in explorer.status
        else:
            n_exact += 1
            assert all(predicted == simulated for _, predicted, simulated in rows), setting
    assert n_exact >= n // 2


def test_the_curves_follow_the_activation_and_say_where_it_folds(explorer):
    curves = explorer.root.locator(".eb-curve")
    assert curves.count() == 2
    assert "The output -0.024 has the derivatives -0.05 and 0.46." in curves.nth(1).inner_text()
    explorer.set(OPENING | {"activation": "Tanh"})
    assert "Each output has one derivative." in curves.nth(1).inner_text()


def test_an_attention_that_the_gpu_has_not_gives_a_sentence(explorer):
    explorer.set(OPENING | {"attention": "flash"})
    assert explorer.state == "failed"
    assert "No available kernel" in explorer.status
    explorer.set(OPENING | {"attention": "flash", "a": 8})
    assert explorer.state == "ready"


def test_heads_that_do_not_divide_the_width_give_a_sentence(explorer):
    explorer.set(OPENING | {"a": 3})
    assert "n_heads must divide d_model: got n_heads=3, d_model=1024; nearest: 2 or 4." in explorer.status

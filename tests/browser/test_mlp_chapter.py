"""The MLP chapter in JupyterLab: its explorer obeys keys and mouse, and shows Python's bytes, term by term."""

import re

import nbformat
import pytest
from explorer_page import ExplorerPage
from places import ROOT

NOTEBOOK = ROOT / "chapters" / "02_mlp_memory.ipynb"
N_SETTINGS = 3


@pytest.fixture
def explorer(page):
    explorer = ExplorerPage(page)
    explorer.settle()
    return explorer


def largest(explorer) -> dict:
    """The setting with every slider at its right end, in float32: it does not fit in 80 GB."""
    fields = {symbol: explorer.root.locator(f'[data-exact="{symbol}"]') for symbol in "bsd"}
    ends = {symbol: int(field.get_attribute("max")) for symbol, field in fields.items()}
    return explorer.value | ends | {"dtype": "float32"}


def check_against_python(explorer, python, settings):
    for setting, (rows, error) in zip(settings, python.expected(settings), strict=True):
        explorer.set(setting)
        assert explorer.rows() == rows, setting
        assert explorer.total()[1] == sum(predicted for _, predicted, _ in rows)
        assert explorer.state == ("failed" if error else "ready")
        if error:
            assert error in explorer.status
        else:
            assert all(predicted == simulated for _, predicted, simulated in rows), setting
            assert "agree in every term" in explorer.status


@pytest.mark.nightly
def test_every_cell_of_the_chapter_ran_and_only_those_that_should_fail_did(page):
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    code = enumerate((cell for cell in cells if cell.cell_type == "code"), 1)
    unfolded = [f"[{n}]:" for n, cell in code if not cell.metadata.get("jupyter", {}).get("source_hidden")]
    prompts = page.locator(".jp-CodeCell .jp-InputPrompt").all_text_contents()
    assert [prompt for prompt in prompts if prompt] == unfolded  # a folded cell shows no number
    errors = page.locator('.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"]')
    assert errors.count() == sum("raises-exception" in cell.metadata.get("tags", []) for cell in cells)


@pytest.mark.parametrize("n", [N_SETTINGS, pytest.param(20, marks=pytest.mark.nightly)])
def test_random_settings_show_what_python_computes(explorer, python, n):
    settings = python.random_settings(n, seed=2)
    settings[n // 2] = largest(explorer)
    check_against_python(explorer, python, settings)


def test_a_setting_that_does_not_fit_gives_a_sentence_and_the_next_one_works(explorer, python):
    fits = explorer.value | {"b": 2, "s": 4096, "d": 1024}
    explorer.set(largest(explorer))
    assert explorer.state == "failed"
    assert "out of memory" in explorer.status
    assert "\n" not in explorer.status.strip()
    assert explorer.total()[1] > 0  # the prediction is still there
    assert explorer.total()[2] is None
    check_against_python(explorer, python, [fits])


def test_arrow_keys_move_a_slider(explorer, python):
    explorer.set(explorer.value | {"b": 2})
    slider = explorer.control("b")
    slider.focus()
    for key, value in (("ArrowRight", 4), ("ArrowUp", 8), ("ArrowLeft", 4), ("Home", 1)):
        explorer.page.keyboard.press(key)
        explorer.settle()
        assert explorer.value["b"] == value
        assert slider.get_attribute("aria-valuetext").startswith(str(value))
    check_against_python(explorer, python, [explorer.value])


def test_the_mouse_drags_a_slider(explorer, python):
    explorer.set(explorer.value | {"s": 128})
    slider = explorer.control("s")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    mouse, middle = explorer.page.mouse, box["y"] + box["height"] / 2
    mouse.move(box["x"] + 8, middle)
    mouse.down()
    for tenth in range(1, 9):
        mouse.move(box["x"] + box["width"] * tenth / 10, middle)
    mouse.up()
    explorer.settle()
    assert explorer.value["s"] > 1024
    check_against_python(explorer, python, [explorer.value])


def test_a_burst_of_moves_ends_with_the_account_of_the_last(explorer, python):
    explorer.set(explorer.value | {"d": 1024})
    burst = """(slider) => {
      for (let i = 0; i < 40; i++) { slider.stepUp(); slider.dispatchEvent(new Event("input", { bubbles: true })); }
      return slider.closest(".eb").dataset.state; // before any answer can have come
    }"""
    assert explorer.control("d").evaluate(burst) == "waiting"
    explorer.settle()
    assert explorer.value["d"] > 1024
    check_against_python(explorer, python, [explorer.value])


def test_a_number_out_of_range_is_refused_in_words(explorer, python):
    explorer.set(explorer.value | {"b": 2})
    field = explorer.root.locator('[data-exact="b"]')
    field.fill("100000")
    field.press("Enter")
    complaint = explorer.root.locator('.eb-control:has([data-exact="b"]) .eb-complaint')
    assert complaint.inner_text().endswith("batch must be a whole number from 1 to 256; still at 2.")
    assert field.get_attribute("aria-invalid") == "true"
    assert explorer.value["b"] == 2
    field.blur()
    assert field.input_value() == "2"
    assert field.get_attribute("aria-invalid") == "false"
    check_against_python(explorer, python, [explorer.value | {"b": 3}])


def test_without_a_kernel_the_prediction_goes_on_and_it_says_so(explorer, python):
    """The last test of this file: it restarts the kernel."""
    page = explorer.page
    explorer.set(explorer.value | {"b": 2})
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_role("menuitem", name=re.compile("^Restart Kernel")).first.click()
    page.get_by_role("button", name="Confirm Kernel Restart").click()
    page.wait_for_function("node => node.dataset.state === 'failed'", arg=explorer.root.element_handle())
    assert "The kernel is gone: run all cells up to this one again" in explorer.status
    assert explorer.root.locator(".eb-badge").inner_text() == ""  # it spoke of the last account
    explorer.control("b").focus()
    page.keyboard.press("ArrowRight")
    [(rows, _)] = python.expected([explorer.value | {"b": 4}])
    assert explorer.value["b"] == 4
    assert explorer.rows() == [(name, predicted, None) for name, predicted, _ in rows]

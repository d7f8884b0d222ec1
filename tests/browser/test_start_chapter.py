"""Chapter 0b in JupyterLab: its cells run, and the reader's own slider shows the bytes that Python counts."""

import re

import nbformat
from places import ROOT

from utils import SimulatedGPU
from utils.experiments.first_programs import tensor_of

NOTEBOOK = ROOT / "chapters" / "00b_who_holds_it.ipynb"
FIRST, STEP = 13_312, 256  # KiB: where the slider starts, and what a key adds


def bill(n_kib: int) -> str:
    """What the slider's label has to say."""
    with SimulatedGPU("a100-80gb") as gpu:
        tensor = tensor_of(gpu, n_kib * 1024)
        allocated, reserved = gpu.memory_allocated(), gpu.memory_reserved()
    slack = allocated - tensor.nbytes
    return f"requested {tensor.nbytes:,}, allocated {allocated:,}, slack {slack:,}, reserved {reserved:,}"


def test_every_cell_ran_and_only_the_one_that_should_fail_did(page):
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    code = enumerate((cell for cell in cells if cell.cell_type == "code"), 1)
    unfolded = [f"[{n}]:" for n, cell in code if not cell.metadata.get("jupyter", {}).get("source_hidden")]
    prompts = page.locator(".jp-CodeCell .jp-InputPrompt").all_text_contents()
    assert [prompt for prompt in prompts if prompt] == unfolded  # a folded cell shows no number
    errors = page.locator('.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"]')
    assert errors.count() == 1
    assert "'Tensor' object has no attribute 'meen'" in errors.text_content()


def test_keys_move_the_slider_and_the_bytes_follow(page):
    slider = page.locator(".widget-slider [role=slider]")
    label = page.locator(".widget-vbox .widget-label").last
    slider.scroll_into_view_if_needed()
    slider.focus()
    n_kib, said = FIRST, set()
    for key, change in ((None, 0), ("ArrowRight", STEP), ("ArrowRight", STEP), ("ArrowLeft", -STEP), ("ArrowUp", STEP)):
        if key:
            page.keyboard.press(key)
        n_kib += change
        label.filter(has_text=exactly(bill(n_kib))).wait_for()
        said.add(bill(n_kib))
    assert len(said) == 3
    page.keyboard.press("Home")
    label.filter(has_text=exactly(bill(STEP))).wait_for()


def exactly(text: str) -> re.Pattern:
    return re.compile(f"^{re.escape(text)}$")

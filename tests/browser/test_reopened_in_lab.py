"""A notebook that was run, saved and opened again: with its kernel the sliders move, without it tables stand there."""

import json

import nbformat
import pytest
from lab import START_SECONDS, asked, lab_server, run_notebook
from places import ROOT
from playwright.sync_api import expect

from tools.chromium import chromium
from tools.lab_contents import LIVE

EXPLORER = "from utils.explorers.mlp import mlp_explorer\n\nmlp_explorer()"
SLIDER = "import ipywidgets\n\nipywidgets.IntSlider()"
NAME, STRANGERS = "sliders.ipynb", "of_a_stranger.ipynb"
MISSING = "model not found"
CHAPTERS = ROOT / "chapters"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A page in a Lab in which a notebook with two sliders has run and was saved; and (address, token)."""
    folder = tmp_path_factory.mktemp("book")
    cells = [nbformat.v4.new_code_cell(source) for source in (EXPLORER, SLIDER)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, folder / NAME)
    with lab_server(folder, tmp_path_factory.mktemp("jupyter")) as (address, token), chromium() as page:
        run_notebook(page, address, token, NAME)
        page.locator(".jp-NotebookPanel .eb").wait_for()
        page.keyboard.press("Control+s")
        page.wait_for_function(  # the tab's dot goes when the file is written
            "() => !document.querySelector('.lm-TabBar-tab.jp-mod-dirty')", timeout=START_SECONDS * 1000
        )
        saved = [output for cell in nbformat.read(folder / NAME, as_version=4).cells for output in cell.outputs]
        assert len(saved) == 2
        assert all(LIVE in output.data for output in saved)
        text = (folder / NAME).read_text(encoding="utf-8")
        (folder / STRANGERS).write_text(text.replace("mlp_explorer()", "mlp_explorer( )"), encoding="utf-8")
        yield page, address, token, folder


def opened_again(page, address, token, name=NAME):
    page.goto(f"{address}/lab/tree/{name}?token={token}&reset")
    page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=START_SECONDS * 1000)


def start_no_kernel(page):
    page.unroute_all()
    page.route("**/api/sessions*", lambda route: route.abort() if route.request.method == "POST" else route.continue_())


def end_kernels(address, token):
    sessions = json.loads(asked(address, token, "sessions"))
    assert sessions
    for session in sessions:
        asked(address, token, f"sessions/{session['id']}", "DELETE")


def test_with_its_kernel_the_explorer_is_alive_again(lab):
    page, address, token, _ = lab
    opened_again(page, address, token)
    page.locator(".jp-NotebookPanel .eb").wait_for(timeout=START_SECONDS * 1000)
    expect(page.locator(".jp-NotebookPanel .widget-slider")).to_have_count(1, timeout=START_SECONDS * 1000)


def test_without_a_kernel_a_table_and_a_sentence(lab):
    page, address, token, _ = lab
    page.goto("about:blank")
    end_kernels(address, token)
    start_no_kernel(page)
    opened_again(page, address, token)
    check_outputs(page)


def test_of_a_stranger_a_table_and_a_sentence(lab):
    """A notebook that nobody has signed here: JupyterLab lets no script of it run."""
    page, address, token, _ = lab
    cells = json.loads(asked(address, token, f"contents/{STRANGERS}"))["content"]["cells"]
    assert [cell["metadata"]["trusted"] for cell in cells] == [False, False]
    opened_again(page, address, token, STRANGERS)
    check_outputs(page)


def check_outputs(page):
    """A table and a sentence in the place of the sliders."""
    outputs = page.locator(".jp-NotebookPanel:visible .jp-OutputArea-output")
    outputs.first.locator("table").wait_for(timeout=START_SECONDS * 1000)
    assert "150,994,944 bytes" in outputs.first.inner_text()
    outputs.nth(1).get_by_text("A slider stands here").wait_for()  # each output is drawn in its own time
    assert MISSING not in page.locator(".jp-NotebookPanel").inner_text()


FIRST, *OTHERS = sorted(CHAPTERS.glob("*.ipynb"))


@pytest.mark.parametrize(
    "chapter",
    [FIRST, *(pytest.param(chapter, marks=pytest.mark.nightly) for chapter in OTHERS)],
    ids=lambda path: path.stem,
)
def test_a_chapter_that_is_only_read_and_saved_is_the_file_that_it_was(lab, chapter):
    page, address, token, folder = lab
    copy = folder / chapter.name
    copy.write_bytes(chapter.read_bytes())
    start_no_kernel(page)
    opened_again(page, address, token, chapter.name)
    page.get_by_role("dialog").get_by_role("button", name="Ok").click()  # JupyterLab has said that no kernel starts
    page.wait_for_function("() => !document.querySelector('.lm-TabBar-tab.jp-mod-dirty')", timeout=START_SECONDS * 1000)
    page.wait_for_timeout(500)
    assert page.locator(".lm-TabBar-tab.jp-mod-dirty").count() == 0
    before = copy.stat().st_mtime_ns
    page.keyboard.press("Control+s")
    while copy.stat().st_mtime_ns == before or not copy.read_text(encoding="utf-8").endswith("}\n"):
        page.wait_for_timeout(50)
    assert copy.read_text(encoding="utf-8") == chapter.read_text(encoding="utf-8")

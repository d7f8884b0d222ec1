"""Predictions in JupyterLab: a field beside the notebook, a result that waits, and nothing of either in the file."""

import contextlib

import nbformat
import pytest
from lab import START_SECONDS
from nbformat import v4

from tools.chromium import chromium

TEXT = """**Predict** what a block takes. <!-- predict: allocated: -->

And in words: **predict** why. <!-- predict -->"""
DIRTY = ".lm-TabBar-tab.jp-mod-dirty"


@contextlib.contextmanager
def in_lab(lab, name, cells):
    """A notebook of these cells, opened and not run."""
    notebook = v4.new_notebook(cells=cells)
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata.language_info = {"name": "python"}
    (lab.folder / name).mkdir()
    nbformat.write(notebook, lab.folder / name / f"{name}.ipynb")
    with chromium(viewport={"width": 1280, "height": 1000}) as page:
        page.goto(f"{lab.address}/lab/workspaces/{name}/tree/{name}/{name}.ipynb?token={lab.token}")
        page.wait_for_selector(".eb-predict", timeout=START_SECONDS * 1000)
        page.get_by_text("| Idle").wait_for(timeout=START_SECONDS * 1000)
        yield page
    lab.end_kernels()


@pytest.fixture(scope="module")
def opened(lab):
    """A notebook with a stored result and two questions."""
    stored = v4.new_output("stream", name="stdout", text="requested: 4 bytes\nallocated: 512 bytes\n")
    cells = [
        v4.new_markdown_cell(TEXT, id="question"),
        v4.new_code_cell("print('requested: 4 bytes\\nallocated: 512 bytes')", id="answer", outputs=[stored]),
        v4.new_code_cell("assert True", id="answer-check", metadata={"tags": ["check", "hide-cell"]}),
        v4.new_markdown_cell("## Takeaways\n\nOne.", id="takeaways"),
    ]
    with in_lab(lab, "asked", cells) as page:
        yield page


def test_a_stored_result_waits_for_the_guess_and_the_guess_is_kept(opened):
    number, words = opened.locator(".eb-predict").all()
    result = opened.locator(".jp-CodeCell .jp-OutputArea-output").first
    assert not result.is_visible()
    number.locator("input").fill("4 bytes")
    number.locator("input").press("Enter")
    assert result.is_visible()
    assert number.locator("output").inner_text() == "it is 512: 128 times what you said"
    words.locator("input").fill("blocks of 512")
    words.locator("input").press("Enter")
    words.get_by_role("button", name="Yes").click()
    tally = opened.locator(".eb-tally")
    said = (
        "You predicted 2 of 2 figures of this chapter: 0 exactly, 0 within 10%, 1 further off, 1 of 1 in words right."
    )
    tally.filter(has_text=said).wait_for()
    opened.reload()
    opened.wait_for_selector(".eb-predict", timeout=START_SECONDS * 1000)
    assert [one.input_value() for one in opened.locator(".eb-predict input").all()] == ["4 bytes", "blocks of 512"]
    assert not opened.locator(".jp-CodeCell .jp-OutputArea-output").first.is_visible()


def test_a_run_shows_the_result_and_compares_and_the_file_stays_as_it_was(opened):
    opened.wait_for_selector(".eb-predict", timeout=START_SECONDS * 1000)
    field = opened.locator(".eb-predict input").first
    field.fill("512")
    assert opened.locator(DIRTY).count() == 0
    opened.get_by_text("| Idle").wait_for(timeout=START_SECONDS * 1000)
    opened.locator(".jp-CodeCell .cm-content").first.click()
    opened.keyboard.press("Shift+Enter")
    opened.locator(".eb-verdict").first.filter(has_text="exactly").wait_for()
    assert opened.locator(".jp-CodeCell .jp-OutputArea-output").first.is_visible()


def test_the_button_shows_a_result_and_compares_all_that_was_said_of_it_also_after_a_change(lab):
    cells = [
        v4.new_markdown_cell("**Predict** it. <!-- predict: first: --> <!-- predict: second: [%] -->", id="twice"),
        v4.new_markdown_cell("And **predict** the same again. <!-- predict: first: -->", id="again"),
    ]
    shown = v4.new_output("stream", name="stdout", text="first: 512 bytes, second: 60%\n")
    cells += [v4.new_code_cell("print(f'first: {8 * 64} bytes, second: {60}%')", id="answer", outputs=[shown])]
    cells += [v4.new_markdown_cell("## Takeaways", id="takeaways")]
    with in_lab(lab, "button", cells) as page:
        for field, words in zip(page.locator(".eb-predict input").all(), ("512", "60 %", "511"), strict=True):
            field.fill(words)
        page.locator(".jp-MarkdownCell").last.click()
        page.keyboard.press("b")  # a cell below, for which all fields are made anew
        page.locator(".jp-CodeCell").nth(1).wait_for()
        page.wait_for_timeout(500)  # fields are made anew a moment after the change
        assert [one.input_value() for one in page.locator(".eb-predict input").all()] == ["512", "60 %", "511"]
        page.get_by_role("button", name="Show the result").click()
        assert page.locator(".jp-CodeCell .jp-OutputArea-output").first.is_visible()
        verdicts = page.locator(".eb-verdict").all_inner_texts()
        assert verdicts == ["exactly", "exactly", "it is 512: off by 1, 0.2%"]
        assert page.locator(".eb-tally").inner_text().startswith("You predicted 3 of 3 figures")
        page.keyboard.press("Escape")
        page.locator(".jp-MarkdownCell").last.click()
        page.keyboard.press("Control+s")
        page.wait_for_selector(DIRTY, state="detached")
        file = nbformat.read(lab.folder / "button" / "button.ipynb", as_version=4)
        assert [(one.id, one.source, one.metadata) for one in file.cells if one.source] == [
            (one.id, one.source, {}) for one in cells
        ]
        assert file.cells[2].outputs == [shown]
        page.locator(".jp-CodeCell .cm-content").first.click()
        page.locator(".eb-predict input").first.fill("9")
        page.locator(".jp-CodeCell .cm-content").first.click()
        page.keyboard.press("Shift+Enter")
        page.locator(".eb-verdict").first.filter(has_text="it is 512").wait_for()


def test_keys_in_a_field_are_the_field_s(opened):
    n_cells = opened.locator(".jp-NotebookPanel .jp-Cell").count()
    field = opened.locator(".eb-predict input").last
    field.fill("")
    field.press_sequentially("abd dd 00")  # each of which is a command on cells
    assert field.input_value() == "abd dd 00"
    assert opened.locator(".jp-NotebookPanel .jp-Cell").count() == n_cells

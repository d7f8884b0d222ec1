"""The tool that runs and writes chapters: what it keeps, what it drops, and that twice is the same as once."""

import json
import signal
import subprocess
import sys

import nbformat
import notebook_rules as rules
import pytest
from nbformat import v4
from places import ROOT

from tools.notebooks import is_readable, main, name_cells, normalise

WIDGET = "application/vnd.jupyter.widget-view+json"
SLIDER = "import ipywidgets\nipywidgets.IntSlider(3)"


def write(path, cells):
    nbformat.write(v4.new_notebook(cells=cells), path)
    return path


@pytest.fixture
def chapter(tmp_path):
    cells = [
        v4.new_markdown_cell("# Bytes", id="opening"),
        v4.new_code_cell("print(1)\nprint(2)", id="count"),
        v4.new_code_cell(SLIDER, id="slider", metadata={"tags": [rules.LIVE], "collapsed": True}),
        v4.new_code_cell("1 / 0", id="broken", metadata={"tags": [rules.EXPECTED_ERROR]}),
        v4.new_code_cell("  \n", id="nothing"),
        v4.new_code_cell("2 * count if (count := 3) else 0", id="0f3c9a1e"),
    ]
    return write(tmp_path / "01_bytes.ipynb", cells)


@pytest.mark.long
def test_twice_is_the_same_as_once(chapter, capsys):
    assert main([str(chapter)]) == 0
    once = chapter.read_bytes()
    assert main([str(chapter)]) == 0
    assert chapter.read_bytes() == once
    assert capsys.readouterr().out.splitlines() == [f"{chapter}: written", f"{chapter}: unchanged"]


@pytest.mark.long
def test_what_is_written(chapter):
    main([str(chapter)])
    notebook = json.loads(chapter.read_text(encoding="utf-8"))
    assert notebook["metadata"]["language_info"] == {"name": "python"}
    assert [cell["id"] for cell in notebook["cells"]] == ["opening", "count", "slider", "broken", "bytes-code"]
    count, slider, broken, last = notebook["cells"][1:]
    assert [cell["execution_count"] for cell in notebook["cells"][1:]] == [1, 2, 3, 4]
    assert count["outputs"] == [{"name": "stdout", "output_type": "stream", "text": ["1\n", "2\n"]}]
    assert slider["metadata"] == {"tags": [rules.LIVE]}
    assert [list(output["data"]) for output in slider["outputs"]] == [["text/plain"]]
    assert broken["outputs"][0]["traceback"] == ["ZeroDivisionError: division by zero"]
    assert last["outputs"][0]["data"] == {"text/plain": ["6"]}
    stored = nbformat.reads(chapter.read_text(encoding="utf-8"), as_version=nbformat.NO_CONVERT)
    assert not [reason for rule in (rules.the_file, rules.the_ids, rules.the_execution) for reason in rule(stored)]


@pytest.mark.long
def test_a_cell_that_fails_leaves_the_file_as_it_was(tmp_path, capsys):
    path = write(tmp_path / "x.ipynb", [v4.new_code_cell("nonsense", id="a")])
    before = path.read_bytes()
    assert main([str(path)]) == 1
    assert path.read_bytes() == before
    assert "name 'nonsense' is not defined" in capsys.readouterr().err


def test_only_normalise_keeps_outputs(tmp_path):
    output = v4.new_output("display_data", {WIDGET: {}, "text/html": "<table>", "text/plain": "W"}, metadata={"x": 1})
    address = v4.new_output("display_data", {WIDGET: {}, "text/plain": "<W object at 0x7f00aa>"})
    lost = v4.new_output("display_data", {WIDGET: {}})
    cell = v4.new_code_cell("w", id="w", execution_count=5, outputs=[output, address, lost])
    path = write(tmp_path / "x.ipynb", [cell])
    assert main(["--only-normalise", str(path)]) == 0
    (stored,) = nbformat.read(path, as_version=4).cells
    assert stored.execution_count == 5
    assert [output.data for output in stored.outputs] == [
        {"text/html": "<table>", "text/plain": "W"},
        {"text/plain": "<W object>"},
    ]
    assert not any(output.metadata for output in stored.outputs)


def test_ids_come_from_headings_and_readable_ones_stay():
    cells = [
        v4.new_markdown_cell("## 2. What the *mask* costs\n\nBytes.", id="aaaaaaaa"),
        v4.new_code_cell("1", id="bbbbbbbb"),
        v4.new_code_cell("2", id="what-the-mask-costs-code-2"),
        v4.new_code_cell("3", id="deadbeef-0000-4000-8000-000000000000"),
    ]
    notebook = v4.new_notebook(cells=cells)
    name_cells(notebook)
    stem = "what-the-mask-costs"
    assert [cell.id for cell in notebook.cells] == [f"{stem}-text", f"{stem}-code", f"{stem}-code-2", f"{stem}-code-3"]
    assert all(is_readable(cell.id) for cell in notebook.cells)


def test_older_notebooks_become_4_5():
    notebook = nbformat.from_dict({"nbformat": 4, "nbformat_minor": 2, "metadata": {"widgets": {"a": 1}}, "cells": []})
    assert normalise(notebook).nbformat_minor == 5
    assert set(notebook.metadata) == {"kernelspec", "language_info"}


@pytest.mark.nightly
def test_compare_lists_the_cells_that_print_something_else_and_writes_nothing(chapter, capsys):
    main([str(chapter)])
    text = chapter.read_text(encoding="utf-8")
    assert main(["--compare", str(chapter)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{chapter}: 0 cells differ"
    assert text.count('"2\\n"') == 1
    chapter.write_text(text.replace('"2\\n"', '"3\\n"').replace("by zero", "by 0"), encoding="utf-8")
    changed = chapter.read_bytes()
    assert main(["--compare", str(chapter)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{chapter}: 2 cells differ",
        "  count: was '3', is '2'",
        "  broken: was 'ZeroDivisionError: division by 0', is 'ZeroDivisionError: division by zero'",
    ]
    assert chapter.read_bytes() == changed


WAITING = """
import signal, sys
sys.path.insert(0, "tools")
import notebooks
from tools.whole_files import plainly
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process in the background ignores
notebooks.Told.__call__ = lambda self, cell, cell_index: "sleep" in cell.source and print("asleep", flush=True)
sys.exit(plainly(lambda: notebooks.main(sys.argv[1:])))
"""


@pytest.mark.long
def test_ctrl_c_leaves_the_chapter_as_it_was(tmp_path):
    path = tmp_path / "waits.ipynb"
    nbformat.write(v4.new_notebook(cells=[v4.new_code_cell("import time\ntime.sleep(60)", id="waits")]), path)
    before = path.read_bytes()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", WAITING, str(path)], cwd=ROOT, **pipes) as process:
        assert process.stdout.readline() == "asleep\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert errors.endswith("\nInterrupted: no file is half-written.\n")
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["waits.ipynb"]

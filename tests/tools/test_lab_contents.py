"""Notebooks are read as JupyterLab would write them, and without a kernel without the live form of their sliders."""

import copy
import json

import nbformat
import pytest
from ipykernel.ipkernel import IPythonKernel
from places import ROOT

from tools.lab_contents import LIVE, SENTENCE, as_lab_writes, as_stored, without_live_outputs

CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
VIEW = {"model_id": "0123", "version_major": 2, "version_minor": 0}


def notebook(*data: dict) -> dict:
    outputs = [{"output_type": "execute_result", "data": one, "metadata": {}} for one in data]
    return {"cells": [{"cell_type": "markdown", "source": "text"}, {"cell_type": "code", "outputs": outputs}]}


def read(*data: dict) -> list[dict]:
    found = notebook(*copy.deepcopy(data))
    without_live_outputs(found)
    return [output["data"] for output in found["cells"][1]["outputs"]]


def test_an_explorer_becomes_its_table():
    other = {"text/html": "<table></table>", "text/plain": "Explorer()"}
    assert read({LIVE: VIEW} | other) == [other]


def test_a_slider_without_a_table_becomes_a_sentence():
    assert read({LIVE: VIEW, "text/plain": "VBox(children=())"}) == [{"text/plain": SENTENCE}]
    assert read({LIVE: VIEW}) == [{"text/plain": SENTENCE}]


def test_other_outputs_stay():
    others = [{"text/plain": "3"}, {"image/png": "abcd", "text/plain": "<Figure>"}]
    assert read(*others) == others


def test_streams_and_errors_stay():
    found = {"cells": [{"cell_type": "code", "outputs": [{"output_type": "stream", "name": "stdout", "text": "x"}]}]}
    without_live_outputs(found)
    assert found["cells"][0]["outputs"][0]["text"] == "x"


def test_the_kernels_particulars_are_put_in_and_hidden_outputs_are_collapsed():
    cells = [{"metadata": {"jupyter": {"outputs_hidden": True}}}, {"metadata": {}}, {}]
    found = {
        "metadata": {"kernelspec": {"display_name": "Python 3"}, "language_info": {"name": "python"}},
        "cells": cells,
    }
    as_lab_writes(found, "Python 3 (ipykernel)")
    assert found["metadata"]["kernelspec"] == {"display_name": "Python 3 (ipykernel)"}
    assert found["metadata"]["language_info"] == IPythonKernel.language_info
    assert [cell.get("metadata", {}).get("collapsed") for cell in found["cells"]] == [True, None, None]


def test_of_another_language_or_an_unknown_kernel_nothing_is_said():
    for language, name in (("julia", "Julia 1.11"), ("python", None)):
        found = {"metadata": {"kernelspec": {}, "language_info": {"name": language}}, "cells": []}
        as_lab_writes(found, name)
        assert found["metadata"] == {"kernelspec": {}, "language_info": {"name": language}}


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_that_is_run_and_saved_is_the_file_that_it_was(path):
    """JupyterLab writes what it has read, what it has put in, and new live outputs with the tables that are stored."""
    text = path.read_text(encoding="utf-8")
    found = nbformat.from_dict(json.loads(text))
    as_lab_writes(found, "Python 3 (ipykernel)")
    for number, cell in enumerate(found["cells"]):
        cell["metadata"]["execution"] = {"iopub.execute_input": "2026-01-01T00:00:00Z"}
        for output in cell.get("outputs", ()):
            if LIVE in output.get("data", {}):
                output["data"][LIVE] = VIEW | {"model_id": f"{number}"}
    as_stored(found, json.loads(text))
    assert nbformat.writes(found).rstrip("\n") + "\n" == text


def test_what_shows_something_else_is_saved():
    new = {LIVE: VIEW | {"model_id": "9"}, "text/html": "3"}
    stored, now = (
        {"cells": [{"id": "a", "metadata": {}, "outputs": [{"data": data}]}], "metadata": {}}
        for data in ({LIVE: VIEW, "text/html": ["<b>1</b>", "2"]}, dict(new))
    )
    as_stored(now, stored)
    assert now["cells"][0]["outputs"][0]["data"] == new
    assert now["metadata"] == {}

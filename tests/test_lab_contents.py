"""Notebooks without a kernel are read without the live form of their sliders; nothing else in them changes."""

import copy

from tools.lab_contents import LIVE, SENTENCE, without_live_outputs

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

"""What a chapter promises beyond its stored outputs: a cell that is run twice shows the same twice."""

import nbformat
import places
import pytest
from nbclient import NotebookClient

CHAPTERS = sorted(places.CHAPTERS.glob("*.ipynb"))
LIVE = "nbval-ignore-output"


def shown(outputs) -> list:
    """What nbval compares: text, not pictures."""
    return [o.get("text") or o.get("data", {}).get("text/plain") or o.get("evalue") for o in outputs]


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_cell_run_twice_shows_the_same(path):
    notebook = nbformat.read(path, as_version=4)
    twice = nbformat.v4.new_notebook(metadata=notebook.metadata)
    checked = [cell for cell in notebook.cells if cell.cell_type == "code"]
    twice.cells = [nbformat.v4.new_code_cell(cell.source, metadata=cell.metadata) for cell in checked for _ in range(2)]
    NotebookClient(twice, timeout=300, kernel_name="python3", coalesce_streams=True).execute()
    for cell, first, second in zip(checked, twice.cells[::2], twice.cells[1::2], strict=True):
        if LIVE not in cell.metadata.get("tags", []):
            assert shown(first.outputs) == shown(cell.outputs), cell.id
            assert shown(second.outputs) == shown(cell.outputs), cell.id

"""Each chapter in JupyterLab, whole: its cells run, and those alone fail that should.

The shorter ones are in test_start_chapter.py and test_mlp_chapter.py.
"""

import nbformat
import places
import pytest

pytestmark = pytest.mark.nightly

LONGER = [path for path in sorted(places.CHAPTERS.glob("*.ipynb")) if path.stem.partition("_")[0] not in ("00", "02")]


@pytest.mark.parametrize("path", LONGER, ids=lambda path: path.stem)
def test_no_cell_failed(path, lab):
    cells = nbformat.read(path, as_version=4).cells
    with lab.opened(path, viewport={"width": 1280, "height": 1000}) as page:
        errors = page.locator('.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"]')
        assert errors.count() == sum("raises-exception" in cell.metadata.get("tags", []) for cell in cells)

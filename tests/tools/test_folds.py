"""What is folded on a page: cells that import names, under one word; other cells stay open."""

import nbformat
import pytest
from small_book import FIRST, chapter
from sphinx.testing.util import SphinxTestApp

from book.extensions.folds import IMPORTS, is_imports

CONF = """
extensions = ["myst_nb", "book.extensions.folds"]
nb_execution_mode = "off"
"""


@pytest.mark.parametrize(
    ("source", "are"),
    [
        ("import torch", True),
        ("import torch\nfrom torch import nn\n\n# why\nfollow('2.13')", True),
        ("import torch\nx = torch.ones(1)\ny = x + 1", False),
        ("x = 1", False),
        ("%pip install x", False),
        ("", False),
    ],
)
def test_imports_are_told_from_other_cells(source, are):
    assert is_imports(source) is are


@pytest.mark.filterwarnings("ignore:'myst_parser.*is deprecated")
def test_imports_are_folded_unless_they_print(tmp_path):
    cells = [nbformat.v4.new_code_cell(source) for source in ("import torch", "x = 1", "import this")]
    cells[2].outputs = [nbformat.v4.new_output("stream", text="The Zen of Python")]
    (tmp_path / "conf.py").write_text(CONF, encoding="utf-8")
    (tmp_path / "index.ipynb").write_text(chapter(FIRST, *cells), encoding="utf-8")
    app = SphinxTestApp("html", srcdir=tmp_path)
    app.build()
    html = (app.outdir / "index.html").read_text(encoding="utf-8")
    app.cleanup()
    assert html.count(f"<summary>{IMPORTS}</summary>") == html.count("<details") == 1
    assert html.index("<details") < html.index("torch")

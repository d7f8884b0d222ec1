"""Marks where explorers stand on a page, around the table that is stored for each, and says where a slider works.

A cell whose output was an Explorer becomes `<div class="eb-explorer" data-explorer="CHAPTER/CELL">` with the stored
table in it, which stays where nothing else takes its place.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

OTHER_WIDGETS = ("VBox(", "HBox(", "IntSlider(", "FloatSlider(", "interactive(")


def bundles(document: nodes.document) -> Iterator[tuple[int, nodes.container, str]]:
    """Each output that has a text form: the number of its cell, its element, its text."""
    for cell in document.findall(lambda node: node.get("nb_element") == "cell_code" if isinstance(node, nodes.container) else False):
        for bundle in cell.findall(lambda node: isinstance(node, nodes.container) and node.get("nb_element") == "mime_bundle"):
            texts = [part.astext() for part in bundle.children if part.get("mime_type") == "text/plain"]
            yield cell["cell_index"], bundle, "".join(texts).strip()


def mark(app: Sphinx, document: nodes.document) -> None:
    """Puts each explorer's table into its div, and a sentence in the place of other widgets."""
    path = Path(app.env.doc2path(app.env.docname))
    if path.suffix != ".ipynb":
        return
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for number, bundle, text in list(bundles(document)):
        if text.startswith("Explorer("):
            name = f"{path.stem}/{cells[number]['id']}"
            start = f'<div class="eb-explorer" data-explorer="{name}">'
            around = [nodes.raw("", start, format="html"), bundle.deepcopy(), nodes.raw("", "</div>", format="html")]
            bundle.parent.replace(bundle, around)
        elif text.startswith(OTHER_WIDGETS):
            words = "Here stands a slider. It asks Python, so it moves in JupyterLab and not on this page."
            bundle.parent.replace(bundle, nodes.paragraph("", words, classes=["widget-elsewhere"]))


def setup(app: Sphinx) -> dict:
    app.connect("doctree-read", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

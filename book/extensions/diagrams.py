"""Puts a notebook's diagrams into the page itself, where they follow its light and dark and are read out."""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

MARK = '<svg class="eb-diagram"'


def put_in(app: Sphinx, document: nodes.document, _name: str) -> None:
    """Replace each picture that is a diagram by its own text."""
    for image in list(document.findall(nodes.image)):
        path = Path(app.srcdir, image["uri"])
        if path.suffix == ".svg" and path.is_file():
            text = path.read_text(encoding="utf-8")
            if text.startswith(MARK):
                image.parent.replace(image, nodes.raw("", text, format="html"))


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.connect("doctree-resolved", put_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Says on a chapter's page what is different there from the notebook: results can be hidden, and nothing runs."""

from docutils import nodes
from sphinx.application import Sphinx

STORED_RESULTS = "The results are stored below the cells."


def add_notes(app: Sphinx, document: nodes.document) -> None:
    """A sentence below the opening, and a note under the heading "Exercises"."""
    name = app.env.docname
    if not name.startswith("chapters/"):
        return
    for paragraph in list(document.findall(nodes.paragraph)):
        if paragraph.astext().startswith(STORED_RESULTS):
            words = nodes.emphasis("", "On this page the button Hide results, above, does that.")
            paragraph += nodes.inline("", "", nodes.Text(" "), words, classes=["pst-js-only"])
    for section in document.findall(nodes.section):
        if section[0].astext() == "Exercises":
            front = app.builder.get_relative_uri(name, app.config.root_doc)
            section.insert(1, where_exercises_run(f"{front}#read-it"))


def where_exercises_run(address: str) -> nodes.note:
    """That it is not here, and where it is said how."""
    words = nodes.paragraph("", "This page runs nothing. In a clone of the book, ")
    words += [
        nodes.literal("", "make lab"),
        nodes.Text(" opens the chapters in JupyterLab, where each exercise judges"),
    ]
    words += [nodes.Text(" your answer ("), nodes.reference("", "how to run the book", refuri=address, internal=True)]
    words += nodes.Text(").")
    return nodes.note("", words, classes=["where-exercises-run"])


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.connect("doctree-read", add_notes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Says on a chapter's page what is different there from the notebook: results can be hidden, and nothing runs."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

STORED_RESULTS = "The results are stored below the cells."


class PageNotes(SphinxTransform):
    """A sentence below the opening, and a note under the heading "Exercises"."""

    default_priority = 400

    def apply(self, **_kwargs) -> None:
        if not self.env.docname.startswith("chapters/"):
            return
        for paragraph in list(self.document.findall(nodes.paragraph)):
            if paragraph.astext().startswith(STORED_RESULTS):
                words = "On this page the button Hide results, above, does that."
                paragraph += nodes.inline("", "", nodes.Text(" "), nodes.emphasis("", words), classes=["pst-js-only"])
        for section in self.document.findall(nodes.section):
            if section[0].astext() == "Exercises":
                section.insert(1, self.where_exercises_run())

    def where_exercises_run(self) -> nodes.note:
        front = self.app.builder.get_relative_uri(self.env.docname, self.config.root_doc)
        words = nodes.paragraph("", "This page runs nothing. In a clone of the book, ")
        words += [
            nodes.literal("", "make lab"),
            nodes.Text(" opens the chapters in JupyterLab, where each exercise judges"),
        ]
        words += [
            nodes.Text(" your answer ("),
            nodes.reference("", "how to run the book", refuri=f"{front}#read-it", internal=True),
        ]
        words += nodes.Text(").")
        return nodes.note("", words, classes=["where-exercises-run"])


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.add_transform(PageNotes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

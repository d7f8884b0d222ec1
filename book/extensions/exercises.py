"""Says at a chapter's exercises that a page runs nothing, and where the cells do run."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class WhereExercisesRun(SphinxTransform):
    """A note under the heading "Exercises" of a chapter."""

    default_priority = 400

    def apply(self, **_kwargs) -> None:
        if not self.env.docname.startswith("chapters/"):
            return
        for section in self.document.findall(nodes.section):
            if section[0].astext() == "Exercises":
                section.insert(1, self.note())

    def note(self) -> nodes.note:
        uri = self.app.builder.get_relative_uri(self.env.docname, self.config.root_doc)
        words = nodes.paragraph("", "This page runs nothing. In a clone of the book, ")
        words += [nodes.literal("", "make lab"), nodes.Text(" opens the chapters in JupyterLab, where each exercise judges your ")]
        words += [nodes.Text("answer: "), nodes.reference("", "how to read the book", refuri=f"{uri}#read-it", internal=True)]
        words += nodes.Text(".")
        return nodes.note("", words, classes=["where-exercises-run"])


def setup(app: Sphinx) -> dict:
    app.add_transform(WhereExercisesRun)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Says on a chapter's page what is different there from the notebook: results can be hidden, and nothing runs."""

import re

from docutils import nodes
from sphinx.application import Sphinx

from .running_text import replace_in_text

STORED_RESULTS = "The results are stored below the cells."
IN_THE_LAB = re.compile(r"\s*If\syou\sstarted\sJupyterLab\swith$")
IN_BRACKETS = re.compile(r"\s*\(In JupyterLab\b[^()]*\)")


def add_notes(app: Sphinx, document: nodes.document) -> None:
    """A page's own words in the opening, no "(In JupyterLab ...)", and a note under the heading "Exercises"."""
    name = app.env.docname
    if not name.startswith("chapters/"):
        return
    address = f"{app.builder.get_relative_uri(name, app.config.root_doc)}#run-it"
    for paragraph in list(document.findall(nodes.paragraph)):
        if paragraph.astext().startswith(STORED_RESULTS):
            speak_of_the_page(paragraph, address)
    replace_in_text(document, IN_BRACKETS, lambda _found: [])
    for section in document.findall(nodes.section):
        if section[0].astext() == "Exercises":
            section.insert(1, where_exercises_run(address))


def speak_of_the_page(paragraph: nodes.paragraph, address: str) -> None:
    """In the place of what JupyterLab does: where results wait, where that works, and where cells run."""
    *_, asked, _space, _make_lab, hidden_there = paragraph
    del paragraph[-3:-1]
    paragraph.replace(asked, nodes.emphasis("", IN_THE_LAB.sub("", asked.astext())))
    waits = nodes.emphasis(
        "", "Its result waits until you enter one or ask for it; Show results, above, shows them all."
    )
    only_there = nodes.inline("", "", nodes.Text(" "), waits, classes=["pst-js-only"])
    paragraph.replace(hidden_there, [only_there, nodes.Text(" ")])
    paragraph += nodes.emphasis("", "Cells can be changed and run in JupyterLab, which ")
    paragraph += [nodes.literal("", "make lab"), nodes.emphasis("", " opens in a clone of the book")]
    paragraph += [_how_to_run(address), nodes.emphasis("", ".")]


def _how_to_run(address: str) -> nodes.inline:
    """A link in brackets, for the screen: paper has no links."""
    link = nodes.reference("", "how to run the book", refuri=address, internal=True)
    return nodes.inline("", "", nodes.Text(" ("), link, nodes.Text(")"), classes=["on-screen"])


def where_exercises_run(address: str) -> nodes.note:
    """Which are judged here, and where the others are."""
    here = nodes.Text("An exercise that asks for numbers is judged on this page. ")
    words = nodes.paragraph("", "", nodes.inline("", "", here, classes=["pst-js-only"]))
    words += [nodes.Text("In a clone of the book, "), nodes.literal("", "make lab")]
    words += [nodes.Text(" opens the chapters in JupyterLab, where each exercise judges your answer")]
    words += [_how_to_run(address), nodes.Text(".")]
    return nodes.note("", words, classes=["where-exercises-run"])


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.connect("doctree-read", add_notes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

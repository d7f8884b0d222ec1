"""What pages say of chapters: the list of them on the front page, and on each a link to itself as a PDF.

A chapter's question, its minutes and its exercises are read from the notebook, so a new chapter appears by itself.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
QUESTION = re.compile(r"\*\*The question\.\*\*\s(.+?)\n\n", re.DOTALL)
MINUTES = re.compile(r"\*\*Time:\*\*\s(\d+) minutes, and (\d+) for the exercises")


_NUMBER = re.compile(r"0*(\d+[a-z]?)_")


def number(notebook: Path) -> str:
    """A chapter's number, as its file's name has it: "4" of 04_every_byte_of_nanogpt.ipynb, "0b" of 00b_….ipynb.

    Raises: ValueError for a name without one.
    """
    if (found := _NUMBER.match(notebook.name)) is None:
        raise ValueError(f"a chapter's file must begin with its number, as in 04_name.ipynb: got {notebook.name}.")
    return found[1]


class Opening(NamedTuple):
    """What the first cell of a chapter says, and how many exercises the last ones set."""

    title: str
    question: str
    minutes: int
    n_exercises: int


def opening(notebook: Path) -> Opening:
    """The opening of a stored chapter.

    Raises: ValueError where the first cell has no title, question or time.
    """
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    title, question, minutes = (pattern.search(texts[0]) for pattern in (TITLE, QUESTION, MINUTES))
    if not (title and question and minutes):
        raise ValueError(f"{notebook.name} must open with # Title, **The question.** and **Time:** .. minutes")
    n_exercises = sum(len(re.findall(r"^### Exercise\b", text, re.MULTILINE)) for text in texts)
    return Opening(title[1], " ".join(question[1].split()), int(minutes[1]), n_exercises)


class ChapterList(SphinxDirective):
    """Each chapter with its question: ```{chapter-list}```."""

    def run(self) -> list[nodes.Node]:
        box = nodes.container(classes=["chapter-list"])
        for path in sorted(Path(self.env.srcdir, "chapters").glob("*.ipynb")):
            self.env.note_dependency(str(path))
            one = opening(path)
            item = nodes.container(classes=["chapter-item"])
            lines = [f"[{one.title}](chapters/{path.name})", "", one.question]
            self.state.nested_parse(StringList(lines, source=path.name), 0, item)
            exercises = f"{one.n_exercises} exercise{'s' * (one.n_exercises != 1)}"
            item += nodes.paragraph("", f"{one.minutes} minutes, {exercises}", classes=["chapter-time"])
            item[0]["classes"].append("chapter-title")
            box += item
        return [box]


def add_pdf_button(app: Sphinx, pagename: str, _template: str, context: dict, _doctree: nodes.document | None) -> None:
    """The link to the chapter's PDF, among the buttons above its text."""
    if app.config.has_pdfs and pagename.startswith("chapters/"):
        address = context["pathto"](f"pdf/{pagename.removeprefix('chapters/')}.pdf", 1)
        button = {"type": "link", "url": address, "text": "PDF", "tooltip": "This chapter as a PDF", "label": "pdf"}
        context["header_buttons"].insert(0, button)


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.add_config_value("has_pdfs", 0, "html")
    app.add_directive("chapter-list", ChapterList)
    app.connect("html-page-context", add_pdf_button, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

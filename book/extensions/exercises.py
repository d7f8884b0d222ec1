"""Below an exercise on a page, its judge where it asks for numbers, else how to open it where Python runs.

The judges are in book/page_judges.json, which `python -m tools.page_judges` writes; exercises.js speaks their words.
"""

import json
import re
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

STORED = "page_judges.json"
UNANSWERED = "no answer yet"
EXERCISE = re.compile(r"^### Exercise (\d+)\b", re.MULTILINE)


def judging_cells(cells: list[dict]) -> dict[int, str]:
    """The place of each cell that judges, among all cells, with its exercise's number in the chapter."""
    found, number = {}, ""
    for place, (cell, behind) in enumerate(zip(cells, [*cells[1:], {}])):
        if cell["cell_type"] == "markdown" and (title := EXERCISE.search("".join(cell["source"]))):
            number = title[1]
        elif number and "solution" in behind.get("metadata", {}).get("tags", []):
            found[place], number = number, ""
    return found


def form_of(judge: dict) -> str:
    """A field for each number, and what is said of them."""
    fields = "".join(
        f'<label><span>{escape(field["name"])} =</span> <input inputmode="text" autocomplete="off" spellcheck="false">'
        "</label>"
        for field in judge["fields"]
    )
    data = escape(json.dumps({key: judge[key] for key in ("fields", "right")}, ensure_ascii=False), quote=True)
    return (
        f'<div class="exercise-judge pst-js-only" data-judge="{data}"><form>{fields}'
        '<button type="submit">Judge it</button><output aria-live="polite"></output></form></div>'
    )


def elsewhere(address: str) -> nodes.paragraph:
    """That its answer is code, or more than numbers, and where that is judged."""
    link = nodes.reference("", "how to open it", refuri=address, internal=True)
    words = nodes.Text("Your answer is judged in JupyterLab (")
    return nodes.paragraph("", "", words, link, nodes.Text(")."), classes=["exercise-elsewhere", "on-screen"])


def drop_unanswered(cell: nodes.container) -> None:
    """No stored words that there is no answer yet, and to run the cell again: here one types it below."""
    for output in [child for child in cell.children if child.get("nb_element") == "cell_code_output"]:
        if UNANSWERED in output.astext().lower():
            cell.remove(output)


def add(app: Sphinx, document: nodes.document) -> None:
    """A judge, or the words, behind the cell of each exercise."""
    path = Path(app.env.doc2path(app.env.docname))
    if not app.env.docname.startswith("chapters/") or path.suffix != ".ipynb":
        return
    stored = Path(app.confdir, STORED)
    app.env.note_dependency(str(stored))
    judges = json.loads(stored.read_text(encoding="utf-8")) if stored.is_file() else {}
    by_cell = {one["cell"]: one for one in judges.values() if one["chapter"] == path.stem}
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    judging = judging_cells(cells)
    address = f"{app.builder.get_relative_uri(app.env.docname, app.config.root_doc)}#run-it"
    for cell in list(document.findall(nodes.container)):
        if cell.get("nb_element") == "cell_code" and cell["cell_index"] in judging:
            judge = by_cell.get(cells[cell["cell_index"]].get("id", ""))
            node = nodes.raw("", form_of(judge), format="html") if judge else elsewhere(address)
            if judge:
                drop_unanswered(cell)
            cell.parent.insert(cell.parent.index(cell) + 1, node)


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.connect("doctree-read", add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

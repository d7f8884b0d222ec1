"""Marks where explorers stand on a page, around the table that is stored for each, and says where a slider works.

A cell whose output was an Explorer becomes `<div class="eb-explorer" data-explorer="NAME">` with the stored table in
it, which stays where no script runs, and in print. NAME is that of the gallery; the page loads what draws it.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

ONLY_A_TABLE = """<p class="widget-elsewhere">This is one setting of an explorer. Its sliders move in JupyterLab, and
on the book's pages where JavaScript runs.</p>"""
OTHER_WIDGETS = ("VBox(", "HBox(", "IntSlider(", "FloatSlider(", "interactive(")


def name_of(source: str) -> str:
    """The explorer that a cell makes, by its name in the gallery; "" if it is none of it."""
    found = re.search(r"^(?:\w+ = )?(\w+)_explorer\(\)$", source, re.MULTILINE)
    return found[1] if found else ""


def bundles(document: nodes.document) -> Iterator[tuple[int, nodes.container, str]]:
    """Each output that has a text form: the number of its cell, its element, its text."""
    for cell in document.findall(
        lambda node: node.get("nb_element") == "cell_code" if isinstance(node, nodes.container) else False
    ):
        for bundle in cell.findall(
            lambda node: isinstance(node, nodes.container) and node.get("nb_element") == "mime_bundle"
        ):
            texts = [part.astext() for part in bundle.children if part.get("mime_type") == "text/plain"]
            yield cell["cell_index"], bundle, "".join(texts).strip()


def hook(env: BuildEnvironment, name: str, table: list[nodes.Node]) -> list[nodes.Node]:
    """The div of the explorer of that name, around its stored table and a sentence for those who see no more.

    The page is noted as one that has it.
    """
    env.metadata[env.docname].setdefault("explorers", []).append(name)
    start = f'<div class="eb-explorer" data-explorer="{name}">'
    return [nodes.raw("", start, format="html"), *table, nodes.raw("", f"{ONLY_A_TABLE}</div>", format="html")]


class StoredExplorer(SphinxDirective):
    """An explorer of a chapter on another page: ```{explorer} CHAPTER/CELL```.

    Raises: ValueError if the cell's stored output is no explorer.
    """

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        chapter, cell_id = self.arguments[0].split("/")
        path = Path(self.env.srcdir, "chapters", f"{chapter}.ipynb")
        self.env.note_dependency(str(path))
        cells = {cell["id"]: cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]}
        source = "".join(cells.get(cell_id, {}).get("source", ""))
        outputs = [output["data"] for output in cells.get(cell_id, {}).get("outputs", ()) if "data" in output]
        tables = ["".join(data["text/html"]) for data in outputs if "".join(data["text/plain"]).startswith("Explorer(")]
        if not tables:
            raise ValueError(f"{path.name} must store an explorer below the cell {cell_id!r}: it has none there")
        return hook(self.env, name_of(source), [nodes.raw("", tables[0], format="html")])


def mark(app: Sphinx, document: nodes.document) -> None:
    """Puts each explorer's table into its div, and a sentence in the place of other widgets."""
    path = Path(app.env.doc2path(app.env.docname))
    if path.suffix != ".ipynb":
        return
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for number, bundle, text in list(bundles(document)):
        if text.startswith("Explorer("):
            name = name_of("".join(cells[number]["source"]))
            bundle.parent.replace(bundle, hook(app.env, name, [bundle.deepcopy()]))
        elif text.startswith(OTHER_WIDGETS):
            words = "Here stands a slider. It asks Python, so it moves in JupyterLab and not on this page."
            bundle.parent.replace(bundle, nodes.paragraph("", words, classes=["widget-elsewhere"]))


def load_scripts(app: Sphinx, page: str, template: str, context: dict, document: nodes.document | None) -> None:
    """Has a page load what draws its explorers, if tools.site_explorers has stored them: one script each."""
    folder = app.config.explorer_scripts
    names = [name for name in app.env.metadata.get(page, {}).get("explorers", ()) if name]
    if not folder or not names:
        return
    app.add_css_file(f"{folder}/explorer.css")
    for name in ("explorers", *dict.fromkeys(names)):
        app.add_js_file(f"{folder}/{name}.js", loading_method="defer")


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.add_config_value("explorer_scripts", "", "html", str)
    app.add_directive("explorer", StoredExplorer)
    app.connect("html-page-context", load_scripts)
    app.connect("doctree-read", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Folds cells under one word, which screen readers say as well: a solution, a check, a function's body, imports."""

import ast

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx

WORDS = {"check": "Check", "body": "How it is made", "solution": "Solution"}
"""By the tag of the folded cell, which is none of what a reader predicts or has in sight."""


IMPORTS = "Imports"


def is_imports(source: str) -> bool:
    """Whether a cell imports names, and does little else: a call that says which version is followed may end it."""
    try:
        statements = ast.parse(source).body
    except SyntaxError:  # a magic
        return False
    imports = [isinstance(statement, ast.Import | ast.ImportFrom) for statement in statements]
    return bool(imports) and imports[0] and imports.count(False) <= 1


def fold_imports(_app: Sphinx, document: nodes.document) -> None:
    """Fold what a chapter imports: it is long, it comes first, and who reads needs none of it."""
    for cell in document.findall(nodes.container):
        if cell.get("nb_element") != "cell_code" or cell.get("hide_mode") or len(cell.children) != 1:
            continue
        source = next(cell.findall(nodes.literal_block), None)
        if source is not None and is_imports(source.astext()):
            cell["hide_mode"] = "input"
            cell["prompt_show"] = cell["prompt_hide"] = IMPORTS
            return  # an import further down is part of what is told there


def name_folds(_app: Sphinx, document: nodes.document, _name: str) -> None:
    """Give the fold of a cell the word that its tag stands for."""
    for cell in document.findall(nodes.container):
        for fold in (child for child in cell.children if isinstance(child, HideCodeCellNode)):
            words = (word for tag, word in WORDS.items() if f"tag_{tag}" in cell["classes"])
            fold["prompt_show"] = next(words, fold["prompt_show"])
            if fold["prompt_show"] == IMPORTS:
                fold["classes"].append("imports")


def open_fold(writer, node: HideCodeCellNode) -> None:
    """The fold and its word."""
    writer.body.append(f'<details class="hide {" ".join(node["classes"])}"><summary>{node["prompt_show"]}</summary>\n')


def close_fold(writer, _node: HideCodeCellNode) -> None:
    """Its end."""
    writer.body.append("</details>\n")


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.setup_extension("myst_nb")
    app.add_node(HideCodeCellNode, override=True, html=(open_fold, close_fold))
    app.connect("doctree-read", fold_imports)
    app.connect("doctree-resolved", name_folds)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

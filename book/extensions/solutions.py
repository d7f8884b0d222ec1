"""Folds cells under one word, which screen readers say as well: a solution, a check, a function's body."""

from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx

WORDS = {"tag_check": "Check", "tag_body": "How it is made"}


def open_fold(writer, node: HideCodeCellNode) -> None:
    """The fold and its word."""
    word = next((word for tag, word in WORDS.items() if tag in node.parent["classes"]), node["prompt_show"])
    writer.body.append(f'<details class="hide {" ".join(node["classes"])}"><summary>{word}</summary>\n')


def close_fold(writer, _node: HideCodeCellNode) -> None:
    """Its end."""
    writer.body.append("</details>\n")


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.setup_extension("myst_nb")
    app.add_node(HideCodeCellNode, override=True, html=(open_fold, close_fold))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

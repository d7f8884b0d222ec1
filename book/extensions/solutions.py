"""Folds each exercise's solution under the one word "Solution", which screen readers say as well."""

from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx


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
    return {"parallel_read_safe": True, "parallel_write_safe": True}

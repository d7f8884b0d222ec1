"""Puts links in the place of phrases in a page's running text: not in headings, code, mathematics or links."""

import re
from collections.abc import Callable

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

NOT_RUNNING_TEXT = (
    nodes.title,
    nodes.reference,
    nodes.literal,
    nodes.literal_block,
    nodes.math,
    nodes.math_block,
    nodes.raw,
    nodes.term,
    nodes.caption,
    addnodes.pending_xref,
    addnodes.compact_paragraph,
)
NUMBER_OF_A_ROW = "equation-number"


def is_running_text(text: nodes.Text) -> bool:
    """Whether none of the elements around `text` is code, a formula, a link or a heading."""
    around = text.parent
    while around is not None:
        if isinstance(around, NOT_RUNNING_TEXT) or NUMBER_OF_A_ROW in around.get("classes", ()):
            return False
        around = around.parent
    return True


def link(app: Sphinx, name: str, target: tuple[str, str], words: str, classes: list[str]) -> nodes.reference:
    """A link with these words, from the document `name` to (document, anchor)."""
    document, anchor = target
    address = app.builder.get_relative_uri(name, document) if document != name else ""
    return nodes.reference(
        "", words, internal=True, classes=classes, refuri=address + (f"#{anchor}" if anchor else "") or "#"
    )


def join(element: nodes.Element) -> None:
    """Puts texts that stand side by side into one: MyST has a text for each line, and another for its end."""
    for around in element.findall(nodes.TextElement):
        joined: list[nodes.Node] = []
        for node in around.children:
            if joined and isinstance(node, nodes.Text) and isinstance(joined[-1], nodes.Text):
                joined[-1] = nodes.Text(joined[-1] + node)
            else:
                joined.append(node)
        around[:] = joined


def replace_in_text(
    element: nodes.Element, pattern: re.Pattern, replaced: Callable[[re.Match], list[nodes.Node]]
) -> None:
    """Puts the nodes of `replaced(match)` in the place of each match in the running text within `element`."""
    join(element)
    for text in [text for text in element.findall(nodes.Text) if is_running_text(text)]:
        words, pieces, done = text.astext(), [], 0
        for found in pattern.finditer(words):
            pieces += [nodes.Text(words[done : found.start()]), *replaced(found)]
            done = found.end()
        if done:
            pieces.append(nodes.Text(words[done:]))
            text.parent.replace(text, [piece for piece in pieces if piece.astext()])

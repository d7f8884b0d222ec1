"""What each section of the book says, as a script beside the pages: the search shows from it which section it found."""

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

NAME = "search_sections.js"
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)  # which question a field of the page is for


def said(node: nodes.Node) -> str:
    """A node's words in a line, without markup and without equations of their own lines."""
    texts = []
    for element in node.findall(nodes.TextElement):
        if isinstance(element, nodes.raw):
            texts.append(html.unescape(re.sub(r"<[^>]+>", " ", COMMENT.sub(" ", element.astext()))))
        elif not isinstance(element, nodes.math_block) and not isinstance(element.parent, nodes.TextElement):
            texts.append(COMMENT.sub(" ", element.astext()))
    return " ".join(" ".join(texts).split())


def sections(document: nodes.document) -> Iterator[tuple[str, str, str]]:
    """(anchor, title, words) of each section, without those of the sections in it; then of each term that is explained.

    Behind these stands each member of a class in the reference. A page's own section has no anchor.
    """
    for section in document.findall(nodes.section):
        inside = [node for node in section.children[1:] if not isinstance(node, (nodes.section, addnodes.glossary))]
        anchor = "" if section.parent is document else section["ids"][0]
        yield anchor, section[0].astext(), " ".join(filter(None, map(said, inside)))
    for glossary in document.findall(addnodes.glossary):
        for item in glossary.findall(nodes.definition_list_item):
            for term in item.findall(nodes.term):
                yield term["ids"][0], term.astext(), said(item[-1])
    for item in document.findall(nodes.definition_list_item):
        if "members" in item.parent["classes"]:
            yield item[0]["ids"][0], item[0]["ids"][0], said(item[-1])


def write(app: Sphinx, error: Exception | None) -> None:
    """Of all pages: {document: [[anchor, title, words]]}."""
    if error or app.builder.name != "html":
        return
    found = {name: list(sections(app.env.get_doctree(name))) for name in sorted(app.env.found_docs)}
    path = Path(app.outdir, "_static", NAME)
    path.write_text(f"const everyByteSections = {json.dumps(found, ensure_ascii=False)};\n", encoding="utf-8")


def load(app: Sphinx, page: str, _template: str, _context: dict, _doctree: nodes.document | None) -> None:
    """The page that searches loads it, and what finds in it, before Sphinx's search begins; others when one asks."""
    if page == "search":
        for name in ("minisearch.js", NAME, "search_rank.js", "search.js"):
            app.add_js_file(name, loading_method="defer")


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.connect("html-page-context", load)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

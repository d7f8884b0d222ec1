"""Ties the sources that chapters name, by address or title, to the bibliography, and its entries to the chapters."""

import re
from typing import NamedTuple

from docutils import nodes
from sphinx.application import Sphinx

from .running_text import link


class Entry(NamedTuple):
    """An entry of the bibliography: its label, where it stands, and by which words a chapter may name it."""

    label: str
    target: tuple[str, str]
    names: frozenset[str]


def plain(text: str) -> str:
    """A title without braces, quotes and differences of spacing, in small letters."""
    return " ".join(re.sub(r"[{}*]", "", text).lower().split())


def entries(app: Sphinx) -> dict[str, Entry]:
    """Every entry by its key."""
    found = {}
    for citation in app.env.get_domain("cite").citations:
        fields = citation.entry.fields
        names = {fields[name] for name in ("url",) if name in fields} | {plain(fields["title"])}
        where = citation.bibliography_key.docname, citation.citation_id
        found[citation.key] = Entry(citation.formatted_entry.label, where, frozenset(names))
    return found


def named(document: nodes.document) -> list[tuple[nodes.Element, set[str]]]:
    """What a chapter names in its section Sources: each link or emphasised title, with its address and words."""
    sections = [section for section in document.findall(nodes.section) if section[0].astext() == "Sources"]
    found = []
    for section in sections:
        links = list(section.findall(nodes.reference))
        titles = [e for e in section.findall(nodes.emphasis) if not isinstance(e.parent, nodes.reference)]
        found += [(node, {node.get("refuri", ""), plain(node.astext())}) for node in [*links, *titles]]
    return found


def collect(app: Sphinx, document: nodes.document) -> None:
    """Notes which chapter names what, for the bibliography to tell."""
    if not hasattr(app.env, "every_byte_named"):
        app.env.every_byte_named = {}
    if app.env.docname.startswith("chapters/"):
        app.env.every_byte_named[app.env.docname] = {word for _, words in named(document) for word in words}


def refer(app: Sphinx, document: nodes.document, name: str) -> None:
    """Sets its entry's label behind each source of a chapter, and behind each entry the chapters that name it."""
    known = entries(app)
    for node, words in named(document) if name.startswith("chapters/") else []:
        entry = next((entry for entry in known.values() if words & entry.names), None)
        if entry:
            label = link(app, name, entry.target, f"[{entry.label}]", ["bibliography-entry"])
            label["reftitle"] = "in the bibliography"
            node.parent.insert(node.parent.index(node) + 1, [nodes.Text(" "), label])
    if citations := list(document.findall(nodes.citation)):
        by_anchor = {entry.target[1]: entry for entry in known.values() if entry.target[0] == name}
        items = [listed(app, citation, by_anchor[citation["ids"][0]], name) for citation in citations]
        parent = citations[0].parent
        parent.insert(parent.index(citations[0]), nodes.bullet_list("", *items, classes=["bibliography"]))
        for citation in citations:
            parent.remove(citation)


def listed(app: Sphinx, citation: nodes.citation, entry: Entry, name: str) -> nodes.list_item:
    """An entry as an item of a plain list: its label, what it says, and the chapters that name it."""
    words = nodes.paragraph("", nodes.Text(f"[{entry.label}] "), classes=["entry"])
    words += [*citation.children[-1].children, *chapters_that_name(app, entry, name)]
    return nodes.list_item("", words, ids=citation["ids"])


def chapters_that_name(app: Sphinx, entry: Entry, name: str) -> list[nodes.Node]:
    """ "Chapters 2, 4.", each a link."""
    numbers = {document: app.env.titles[document].astext().split(".")[0] for document in app.env.every_byte_named}
    here = sorted(document for document, words in app.env.every_byte_named.items() if words & entry.names)
    found = [nodes.Text(f" Chapter{'s' * (len(here) > 1)} " if here else "")]
    for document in here:
        found += [link(app, name, (document, "sources"), numbers[document], []), nodes.Text(", ")]
    return [*found[:-1], nodes.Text(".")] if here else []


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.connect("doctree-read", collect)
    app.connect("doctree-resolved", refer, priority=640)
    return {"parallel_read_safe": False, "parallel_write_safe": True}

"""Links a chapter's first use of each term of the glossary to what the glossary says of it."""

import re

from docutils import nodes
from sphinx.application import Sphinx

from .running_text import link, replace_in_text


def terms(app: Sphinx, name: str) -> dict[str, tuple[str, str]]:
    """Each term that the document `name` links, in small letters, and where it is explained: (document, anchor)."""
    unlinked = {*app.config.glossary_unlinked, *app.config.glossary_unlinked_in.get(name, ())}
    objects = app.env.get_domain("std").get_objects()
    found = {term.lower(): (document, anchor) for term, _, kind, document, anchor, _ in objects if kind == "term"}
    return {term: target for term, target in found.items() if term not in unlinked}


def definitions(app: Sphinx, document: str) -> dict[str, str]:
    """What the glossary says of each term, by its anchor, up to where the section is named."""
    found = {}
    for item in app.env.get_doctree(document).findall(nodes.definition_list_item):
        words = re.sub(r"\s+(Section|Chapter) [\d.]+\.$", "", item[-1].astext().replace("\n", " "))
        found |= {anchor: words for term in item.findall(nodes.term) for anchor in term["ids"]}
    return found


def pattern_of(names: list[str]) -> re.Pattern:
    """Any of the terms as a word of its own, singular or plural, the longest first."""
    words = "|".join(re.escape(name).replace(r"\ ", r"\s+") for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<![\w-])({words})(?:s|es)?(?![\w-])", re.IGNORECASE)


def refer(app: Sphinx, document: nodes.document, name: str) -> None:
    """Links the first use of each term in a chapter."""
    known = terms(app, name)
    if not (known and name.startswith("chapters/")):
        return
    met: set[str] = set()  # meanings: a term may have two names
    said = definitions(app, next(iter(known.values()))[0])

    def replaced(found: re.Match) -> list[nodes.Node]:
        target = known[" ".join(found[1].lower().split())]
        meaning = said[target[1]]
        if meaning in met:
            return [nodes.Text(found[0])]
        met.add(meaning)
        reference = link(app, name, target, found[0], ["term"])
        reference["reftitle"] = meaning
        return [reference]

    replace_in_text(document, pattern_of(list(known)), replaced)


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.add_config_value("glossary_unlinked", [], "env")
    app.add_config_value("glossary_unlinked_in", {}, "env")
    app.connect("doctree-resolved", refer, priority=620)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

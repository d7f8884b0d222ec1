"""Links a chapter's first use of each term of the glossary to what the glossary says of it."""

import re

from docutils import nodes
from sphinx.application import Sphinx

from .running_text import link, replace_in_text


def terms(app: Sphinx) -> dict[str, tuple[str, str]]:
    """Each term in small letters, and where it is explained: (document, anchor)."""
    objects = app.env.get_domain("std").get_objects()
    found = {name.lower(): (document, anchor) for name, _, kind, document, anchor, _ in objects if kind == "term"}
    return {name: target for name, target in found.items() if name not in app.config.glossary_unlinked}


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
    known = terms(app)
    if not (known and name.startswith("chapters/")):
        return
    met: set[tuple[str, str]] = set()
    said = definitions(app, next(iter(known.values()))[0])

    def replaced(found: re.Match) -> list[nodes.Node]:
        target = known[" ".join(found[1].lower().split())]
        if target in met:
            return [nodes.Text(found[0])]
        met.add(target)
        reference = link(app, name, target, found[0], ["term"])
        reference["reftitle"] = said[target[1]]
        return [reference]

    replace_in_text(document, pattern_of(list(known)), replaced)


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.add_config_value("glossary_unlinked", [], "env")
    app.connect("doctree-resolved", refer, priority=620)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Where the book can be had: the address of its repository, and on each page what follows from it.

The address is that of CITATION.cff, `repository-code`, or EVERY_BYTE_ADDRESS when the site is built. Where there is
one, commands name it, chapters have buttons for Colab and Binder, and each page links to its source and to the issues.
Where there is none, no page has any of that, and what stands in ```{without-address}``` says how to get the book.
"""

import os
import re
from pathlib import Path
from urllib.parse import quote

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from tools.first_cell import CITATION, address_in

VARIABLE, SITE_VARIABLE = "EVERY_BYTE_ADDRESS", "EVERY_BYTE_SITE"
PLACEHOLDER = re.compile(r"\bADDRESS\b")
_ON_GITHUB = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?$")
_ON_GITLAB = re.compile(r"https://(gitlab\.[\w.-]+/.+?)(?:\.git)?/?$")


class Address:
    """An address that `git clone` takes, and the pages of its host; `text` may end in a `#` and a branch or tag."""

    def __init__(self, text: str) -> None:
        self.clone, _, branch = text.partition("#")
        self.branch = branch or "HEAD"
        self.github, self.gitlab = _ON_GITHUB.match(self.clone), _ON_GITLAB.match(self.clone)

    def __bool__(self) -> bool:
        return bool(self.clone)

    @property
    def clone_line(self) -> str:
        """What `git clone` takes: a branch or tag before the address."""
        return self.clone if self.branch == "HEAD" else f"--branch {self.branch} {self.clone}"

    @property
    def page(self) -> str:
        """The repository's own page, where its host is known; else ""."""
        if self.github:
            return f"https://github.com/{self.github[1]}/{self.github[2]}"
        return f"https://{self.gitlab[1]}" if self.gitlab else ""

    def source(self, path: str) -> str:
        """Where a file can be edited."""
        between = "/edit/" if self.github else "/-/edit/"
        branch = "main" if self.branch == "HEAD" else self.branch
        return f"{self.page}{between}{branch}/{quote(path)}" if self.page else ""

    def issue(self, title: str) -> str:
        """Where an issue about a page can be written."""
        words = f"/issues/new?title={quote(title)}" if self.github else f"/-/issues/new?issue[title]={quote(title)}"
        return f"{self.page}{words}" if self.page else ""

    def colab(self, path: str) -> str:
        """A notebook on Colab, which opens those on GitHub."""
        if not self.github:
            return ""
        branch = "main" if self.branch == "HEAD" else self.branch
        return f"https://colab.research.google.com/github/{self.github[1]}/{self.github[2]}/blob/{branch}/{quote(path)}"

    def binder(self, path: str) -> str:
        """A notebook on Binder."""
        if self.github:
            where = f"gh/{self.github[1]}/{self.github[2]}"
        elif self.gitlab:
            where = f"git/{quote(self.clone, safe='')}"
        else:
            return ""
        return f"https://mybinder.org/v2/{where}/{quote(self.branch, safe='')}?urlpath=lab/tree/{quote(path)}"


def address_of(citation: str) -> str:
    """The address to build with: the environment's, else that of the text of CITATION.cff."""
    return os.environ.get(VARIABLE) or address_in(citation)


def site_of(citation: str) -> str:
    """Where the built pages are to be: the environment's, else `url` in the text of CITATION.cff; "" if not known."""
    return os.environ.get(SITE_VARIABLE) or yaml.safe_load(citation).get("url", "")


def source_of(page: str, folder: Path) -> str:
    """Where the source of a page is in the repository; "" for a page that none has, as the search."""
    if page.startswith("chapters/"):
        return f"{page}.ipynb"
    return next((f"book/{page}{end}" for end in (".md", ".ipynb") if (folder / f"{page}{end}").is_file()), "")


class WithAddress(SphinxDirective):
    """What a page says only where there is an address: ```{with-address}```."""

    has_content = True
    is_for_one = True

    def run(self) -> list[nodes.Node]:
        if bool(self.config.book_address) is not self.is_for_one:
            return []
        box = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, box)
        return box.children


class WithoutAddress(WithAddress):
    """What a page says only where there is none: ```{without-address}```."""

    is_for_one = False


class Citation(SphinxDirective):
    """How to cite the book, as BibTeX, from CITATION.cff: ```{citation}```; nothing without an address."""

    def run(self) -> list[nodes.Node]:
        if not self.config.book_address:
            return []
        text = bibtex(yaml.safe_load(CITATION.read_text(encoding="utf-8")), Address(self.config.book_address).clone)
        return [nodes.literal_block(text, text, language="bibtex")]


def bibtex(citation: dict, address: str) -> str:
    """An entry for a bibliography."""
    authors = " and ".join(f"{{{author['name']}}}" for author in citation["authors"])
    fields = {"title": citation["title"], "author": authors, "year": citation["date-released"].year}
    fields |= {"version": citation["version"], "url": address}
    return "@software{every_byte,\n" + "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items()) + "}"


def name_it(app: Sphinx, document: nodes.document) -> None:
    """The address for ADDRESS in the commands of a page, where there is one."""
    if not app.config.book_address:
        return
    line = Address(app.config.book_address).clone_line
    for block in document.findall(nodes.literal_block):
        text = block.astext()
        if PLACEHOLDER.search(text):
            block.children = [nodes.Text(PLACEHOLDER.sub(lambda _found: line, text))]
            block.rawsource = block.astext()


def add_links(app: Sphinx, pagename: str, _template: str, context: dict, _doctree: nodes.document | None) -> None:
    """Buttons above a chapter, and links below each page."""
    address = Address(app.config.book_address)
    source = source_of(pagename, Path(app.confdir))
    if not address or not source:
        return
    issue = address.issue(f"On the page {pagename}: ")
    links = [("Edit this page", address.source(source)), ("Report a mistake", issue)]
    if pagename.startswith("chapters/"):
        for name, url in (("Binder", address.binder(source)), ("Colab", address.colab(source))):
            if url:
                links.insert(0, (f"Run it on {name}", url))  # narrow screens have no room for buttons
                button = {"type": "link", "url": url, "text": name, "label": name.lower()}
                context["header_buttons"].insert(0, button | {"tooltip": f"Run this chapter on {name}"})
    context["page_links"] = [(words, url) for words, url in links if url]


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.add_config_value("book_address", "", "env", str)
    for name, directive in (("with", WithAddress), ("without", WithoutAddress)):
        app.add_directive(f"{name}-address", directive)
    app.add_directive("citation", Citation)
    app.connect("doctree-read", name_it)
    app.connect("html-page-context", add_links, priority=901)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""The built pages, read as files: links, pictures and headings are what a reader with any browser can use."""

import json
import re
from functools import cache
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest
from places import ROOT
from site_pages import book_pages

from tools.screenshots import pages
from tools.site import HTML

pytestmark = pytest.mark.usefixtures("site")


class _Page(HTMLParser):
    """A page's addresses and ids, and of its article the levels of headings and the texts in place of pictures."""

    def __init__(self, text: str):
        super().__init__()
        self.links, self.ids, self.alts, self.headings = [], set(), [], []
        self._in_article = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids |= {attributes["id"]} if attributes.get("id") else set()
        self.links += [attributes[key] for key in ("href", "src") if attributes.get(key)]
        self._in_article |= tag == "article"
        if self._in_article and tag == "img":
            self.alts.append((attributes.get("alt") or "").strip())
        if self._in_article and re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_endtag(self, tag):
        self._in_article &= tag != "article"


@cache
def parsed(path) -> _Page:
    return _Page(path.read_text(encoding="utf-8"))


def broken(path) -> list[str]:
    """Links of a page that lead to no file, or to no place in it."""
    found = []
    for link in parsed(path).links:
        if re.match(r"https?:|data:|mailto:", link):
            continue
        address, _, anchor = link.partition("#")
        target = (path.parent / unquote(address.split("?")[0])).resolve() if address else path
        if not target.is_file() or (anchor and target.suffix == ".html" and unquote(anchor) not in parsed(target).ids):
            found.append(link)
    return found


def test_every_link_leads_somewhere():
    assert sum(len(parsed(path).links) for path in pages()) > 500
    assert {path.name: broken(path) for path in pages() if broken(path)} == {}


def test_every_picture_says_what_it_shows():
    alts = {name: parsed(HTML / name).alts for name in book_pages()}
    assert sum(map(len, alts.values())) > 10
    assert {name for name, texts in alts.items() if any(len(text) < 20 for text in texts)} == set()


def test_headings_come_in_order():
    for name in set(book_pages()) - {"search.html"}:
        levels = parsed(HTML / name).headings
        assert (levels[0], levels.count(1)) == (1, 1), name
        assert all(below <= above + 1 for above, below in zip(levels, levels[1:])), name


def test_no_page_sends_a_reader_to_menus_that_it_lacks():
    texts = {name: (HTML / name).read_text(encoding="utf-8") for name in book_pages()}
    chapters = [text for name, text in texts.items() if name.startswith("chapters/")]
    assert all("Cells can be changed and run in JupyterLab" in text for text in chapters)
    assert [name for name, text in texts.items() if re.search(r"Clear\s+Outputs|\(In JupyterLab", text)] == []


def test_no_page_speaks_of_this_machine():
    texts = {path.name: path.read_text(encoding="utf-8") for path in HTML.rglob("*.html")}
    texts["searchindex.js"] = (HTML / "searchindex.js").read_text(encoding="utf-8")
    assert [name for name, text in texts.items() if str(ROOT) in text or json.dumps(str(ROOT)) in text] == []

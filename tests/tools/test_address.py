"""The repository's address is said in one place; pages follow from it, and have none of that where it is not known."""

import re
from datetime import date

import pytest
from small_book import FIRST, chapter
from sphinx.testing.util import SphinxTestApp

from book.extensions.address import SITE_VARIABLE, VARIABLE, Address, address_of, bibtex, site_of, source_of

CONF = """
extensions = ["myst_nb", "book.extensions.address"]
myst_enable_extensions = ["colon_fence"]
nb_execution_mode = "off"
html_theme = "sphinx_book_theme"
html_show_copyright = False
"""
INDEX = """# Book

```{toctree}
chapters/01_first
```

:::{with-address}
```sh
git clone ADDRESS every-byte
```

```{citation}
```
:::

:::{without-address}
Ask for it.
:::

In a class: `ADDRESS`.

```sh
cd there && git clone ADDRESS every-byte
```
"""
GITHUB = "https://github.com/you/every-byte"


def built(folder, address: str) -> dict[str, str]:
    """The pages of a book of one page and one chapter."""
    (folder / "chapters").mkdir(parents=True)
    (folder / "conf.py").write_text(f"{CONF}book_address = {address!r}\n", encoding="utf-8")
    (folder / "index.md").write_text(INDEX, encoding="utf-8")
    (folder / "chapters" / "01_first.ipynb").write_text(chapter(FIRST), encoding="utf-8")
    app = SphinxTestApp("html", srcdir=folder)
    app.build()
    names = ("index", "chapters/01_first")
    pages = {name: (app.outdir / f"{name}.html").read_text(encoding="utf-8") for name in names}
    app.cleanup()
    return pages


def text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", "", html).split())


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_with_an_address_commands_name_it_and_chapters_run_elsewhere(tmp_path):
    pages = built(tmp_path / "book", f"{GITHUB}#v1")
    said = text(pages["index"])
    assert said.count(f"git clone --branch v1 {GITHUB} every-byte") == 2
    assert "Ask for it." not in said
    assert f"url = {{{GITHUB}}}" in said
    links = re.findall(r'href="(https://[^"]+)"[^>]*>', pages["chapters/01_first"])
    assert "https://colab.research.google.com/github/you/every-byte/blob/v1/chapters/01_first.ipynb" in links
    assert "https://mybinder.org/v2/gh/you/every-byte/v1?urlpath=lab/tree/chapters/01_first.ipynb" in links
    assert "colab" not in pages["index"]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_without_one_no_page_has_any_of_that(tmp_path):
    pages = built(tmp_path / "book", "")
    said = text(pages["index"])
    assert "Ask for it." in said
    assert said.count("ADDRESS") == 2
    assert "@software" not in said
    assert not re.search("colab|mybinder|github.com/you", "".join(pages.values()))


def test_what_follows_from_an_address_on_github():
    there = Address(f"{GITHUB}.git")
    assert (there.clone_line, there.page) == (f"{GITHUB}.git", GITHUB)
    assert there.source("book/places.md") == f"{GITHUB}/edit/main/book/places.md"
    assert there.issue("On the page a b: ") == f"{GITHUB}/issues/new?title=On%20the%20page%20a%20b%3A%20"
    assert there.binder("chapters/a.ipynb").endswith("/gh/you/every-byte/HEAD?urlpath=lab/tree/chapters/a.ipynb")


def test_what_follows_from_others():
    there = Address("https://gitlab.example.org/you/every-byte#v1")
    assert there.source("a.md") == "https://gitlab.example.org/you/every-byte/-/edit/v1/a.md"
    assert there.colab("a.ipynb") == ""
    assert "mybinder.org/v2/git/https%3A%2F%2Fgitlab" in there.binder("a.ipynb")
    plain = Address("ssh://example.org/every-byte")
    assert (plain.source("a"), plain.issue("a"), plain.colab("a"), plain.binder("a")) == ("", "", "", "")
    assert not Address("")


def test_the_environment_comes_before_the_citation(monkeypatch):
    cited = f'version: 0.1.0\nrepository-code: "{GITHUB}"\nurl: "https://example.org/book"\n'
    for name in (VARIABLE, SITE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    assert (address_of(cited), site_of(cited)) == (GITHUB, "https://example.org/book")
    assert (address_of("version: 0.1.0\n"), site_of("version: 0.1.0\n")) == ("", "")
    monkeypatch.setenv(VARIABLE, "https://example.org/mine")
    monkeypatch.setenv(SITE_VARIABLE, "https://example.org/there")
    assert (address_of(cited), site_of(cited)) == ("https://example.org/mine", "https://example.org/there")


def test_a_pages_source_is_where_it_is_written(tmp_path):
    (tmp_path / "quiz.ipynb").touch()
    (tmp_path / "places.md").touch()
    assert source_of("chapters/00_start_here", tmp_path) == "chapters/00_start_here.ipynb"
    assert (source_of("places", tmp_path), source_of("quiz", tmp_path)) == ("book/places.md", "book/quiz.ipynb")
    assert source_of("search", tmp_path) == ""


def test_the_entry_for_a_bibliography():
    cited = {"title": "A", "authors": [{"name": "The B"}], "version": "1.0", "date-released": date(2026, 1, 2)}
    entry = bibtex(cited, GITHUB)
    assert entry.startswith("@software{every_byte,\n  title = {A},\n  author = {{The B}},\n  year = {2026},\n")

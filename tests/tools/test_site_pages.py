"""What the site's directives put on a page: chapters, recordings, the formula sheet and explorers; and mathematics."""

import gzip
import json
import re
import shutil
from types import SimpleNamespace

import pytest
from docutils import nodes
from small_book import EXPLORER, FIRST, SLIDER, chapter, resolved
from sphinx.testing.util import SphinxTestApp

from book.extensions import recordings
from book.extensions.katex import Mathematics
from tools import site

# MyST's, of Sphinx's next version but one: it is met where a document's references are resolved in a test.
pytestmark = pytest.mark.filterwarnings("ignore:'myst_parser.*is deprecated")

CONF = """
extensions = ["myst_nb"]
extensions += ["book.extensions." + name for name in ("chapters", "recordings", "formula_sheet", "explorers", "katex")]
myst_enable_extensions = ["dollarmath"]
nb_execution_mode = "off"
"""
INDEX = """# Book

```{{toctree}}
:glob:

chapters/*
```

```{{chapter-list}}
```

```{{recordings}}
```

```{{formula-sheet}} formula_sheet.html
```

```{{explorer}} 01_first/{cell}
```

A half-open range [$a$, $b$) (see “$c$”), and $d$: so ($e + e + e + e + e + e + e + e + e$), **($f$)**, $g$ **h**.
"""


def book(folder, *, cell: str = "the-explorer") -> SphinxTestApp:
    """A front page and two chapters that open as chapters do."""
    (folder / "chapters").mkdir(parents=True)
    (folder / "conf.py").write_text(CONF, encoding="utf-8")
    (folder / "index.md").write_text(INDEX.format(cell=cell), encoding="utf-8")
    second = FIRST.replace("# 1. The first", "# 2. The second").replace("kept?", "given\nback?").replace("40", "7")
    (folder / "chapters" / "01_first.ipynb").write_text(chapter(FIRST, EXPLORER, SLIDER), encoding="utf-8")
    (folder / "chapters" / "02_second.ipynb").write_text(
        chapter(second, "### Exercise 2: more\n\n### Exercises of others"), encoding="utf-8"
    )
    shutil.copy(site.BOOK / "formula_sheet.html", folder)
    return SphinxTestApp("html", srcdir=folder)


def record(folder, name: str, content) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    """The front page, with recordings of two kinds."""
    folder = tmp_path_factory.mktemp("book")
    kinds = {"runs": folder / "runs", "calls": folder / "calls"}
    record(kinds["runs"], "a", {"marks": [1, 2], "events": [0] * 1200})
    record(kinds["runs"], "b", {"marks": [1]})
    record(kinds["runs"], "no_marks", {"events": [0]})
    record(kinds["runs"], "a_list", [1, 2])
    record(kinds["calls"], "c", {"marks": [1, 2, 3], "events": []})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recordings, "KINDS", kinds)
        app = book(folder)
        app.builder.read()
    yield resolved(app, "index")
    app.cleanup()


def raw(front: nodes.document) -> list[str]:
    return [node.astext() for node in front.findall(nodes.raw)]


def test_the_chapter_list_has_each_chapters_link_question_minutes_and_exercises(front):
    (box,) = (node for node in front.findall(nodes.container) if "chapter-list" in node["classes"])
    said = [[" ".join(line.astext().split()) for line in item] for item in box]
    assert said == [
        ["1. The first", "What is kept?", "40 minutes, 1 exercise"],
        ["2. The second", "What is given back?", "7 minutes, 2 exercises"],
    ]
    titles = [item[0] for item in box]
    assert [title["classes"] for title in titles] == [["chapter-title"]] * 2
    addresses = [link["refuri"] for title in titles for link in title.findall(nodes.reference)]
    assert addresses == ["chapters/01_first.html", "chapters/02_second.html"]


def test_the_table_of_recordings_counts_those_that_have_marks(front):
    (table,) = (html for html in raw(front) if "<th" in html and "recordings" in html)
    rows = [re.findall(r"<t[dh][^>]*>([^<]*)<", row) for row in table.split("<tr>")[1:]]
    assert rows == [
        ["programs", "recordings", "marks", "events"],
        ["runs", "2", "3", "1,200"],
        ["calls", "1", "3", "0"],
    ]


def test_the_formula_sheets_page_has_all_tables_of_the_sheet_in_sections(front):
    sheet = (site.BOOK / "formula_sheet.html").read_text(encoding="utf-8")
    tables = re.compile(r"<table.*?</table>", re.DOTALL)
    titles = re.findall(r"<h2>(.*?)</h2>", sheet)
    assert len(titles) >= 3
    sections = [section for section in front.findall(nodes.section) if "formula-sheet" in section[1].astext()]
    assert [section[0].astext().replace("’", "'") for section in sections] == titles
    assert len({anchor for section in sections for anchor in section["ids"]}) == len(titles)
    by_section = [tables.findall(section[1].astext()) for section in sections]
    assert by_section == [tables.findall(part) for part in sheet.split("<h2>")[1:]]
    (first,) = (html for html in raw(front) if "<caption>The caching allocator" in html)
    assert [*tables.findall(first), *sum(by_section, [])] == tables.findall(sheet)
    assert all(section[1].astext().startswith('<div class="formula-sheet">') for section in sections)


def test_a_chapters_explorer_stands_on_another_page_with_its_table(front):
    html = " ".join(raw(front))
    start = html.index('<div class="eb-explorer" data-explorer="small">')
    assert "<td>7</td>" in html[start : html.index("</div>", start)]


@pytest.mark.long
@pytest.mark.parametrize("cell", ["a-slider", "no-such-cell"])
def test_a_cell_that_shows_no_explorer_is_told(tmp_path, cell):
    app = book(tmp_path / "book", cell=cell)
    with pytest.raises(
        ValueError, match=rf"01_first\.ipynb must store an explorer below the cell '{cell}': it has none there"
    ):
        app.builder.read()
    app.cleanup()


def test_a_short_formula_takes_the_brackets_and_commas_beside_it(front):
    (line,) = (text for text in front.findall(nodes.paragraph) if text.astext().startswith("A half-open"))
    formulas = {f.astext(): (f.get("before"), f.get("after")) for f in line.findall(nodes.math)}
    assert formulas == {
        "a": (None, ","),
        "b": (None, ")"),
        "c": ("“", "”),"),
        "d": (None, ":"),
        "e + e + e + e + e + e + e + e + e": (None, None),  # long: it may be broken
        "f": ("(", ")"),
        "g": (None, None),
    }
    assert line.astext() == "A half-open range [a b (see c and d so (e + e + e + e + e + e + e + e + e), f, g h."


def test_what_was_taken_is_written_with_the_formula_in_one_piece():
    mathematics = Mathematics(None)
    mathematics._katex = SimpleNamespace(html=lambda latex, display: f"<i>{latex}</i>")
    written = []
    for formula in (nodes.math("", "a", before="("), nodes.math("", "b"), nodes.math("", "c", after="),")):
        with pytest.raises(nodes.SkipNode):
            mathematics.inline(SimpleNamespace(body=written), formula)
    together = '<span class="math together">{}</span>'
    assert written == [
        together.format("(<i>a</i>"),
        '<span class="math"><i>b</i></span>',
        together.format("<i>c</i>),"),
    ]

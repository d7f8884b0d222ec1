"""The site's own extensions, each on a book of two small chapters."""

import json
import re
import shutil

import pytest
from docutils import nodes
from reference_files import WITHOUT_A_CASE
from small_book import FIRST, SECOND, chapter, links, resolved, write_book
from sphinx.errors import ExtensionError
from sphinx.testing.util import SphinxTestApp

from book.extensions.chapters import opening
from book.extensions.explorers import name_of
from book.extensions.katex import Katex
from book.extensions.numbered import TAG
from book.extensions.recordings import FOLDER, counts
from book.extensions.search_sections import sections
from tools import site


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    folder = tmp_path_factory.mktemp("book")
    write_book(folder)
    app = SphinxTestApp("html", srcdir=folder, warningiserror=True)
    app.builder.read()
    yield app
    app.cleanup()


# --------------------------------------------------------------------------------------------------------- references


@pytest.mark.long
def test_a_mention_leads_to_what_it_names_and_otherwise_stays_text(app):
    assert links(app, "chapters/01_first", "cross-reference") == [
        ("(1.1)", "#equation-1-1"),
        ("(2.1)", "02_second.html#equation-2-1"),
        ("section 1.1", "#a-storage"),
        ("sections 1.1", "#a-storage"),
        ("2.1", "02_second.html#here"),
        ("chapter 2", "02_second.html"),
        ("exercise 1 of chapter 2", "02_second.html#exercise-1-again"),
        ("2", "02_second.html"),
        ("2", "02_second.html"),
        ("Exercises 1", "02_second.html#exercise-1-again"),
        ("2 of chapter 2", "02_second.html#exercise-2-more"),
        ("exercises 1", "#exercise-1-a-segment"),
        ("section 1.1", "#a-storage"),
    ]


def test_an_exercise_is_one_of_the_same_chapter(app):
    assert links(app, "chapters/02_second", "cross-reference") == [
        ("(2.1)", "#equation-2-1"),
        ("(2.2)", "#equation-2-2"),
        ("exercise 1", "#exercise-1-again"),
        ("(1.1)", "01_first.html#equation-1-1"),
        ("Exercises 1", "#exercise-1-again"),
        ("2", "#exercise-2-more"),
        ("exercises 1", "#exercise-1-again"),
        ("2", "#exercise-2-more"),
        ("Sections 1.1", "01_first.html#a-storage"),
        ("2.1", "#here"),
        ("chapters 1", "01_first.html"),
        ("chapters 1", "01_first.html"),
    ]


def test_other_pages_refer_to_equations_too(app):
    assert links(app, "index", "cross-reference") == [("(1.1)", "chapters/01_first.html#equation-1-1")]


def test_an_equation_has_its_number_beside_it_and_not_in_it(app):
    (equation,) = resolved(app, "chapters/01_first").findall(nodes.math_block)
    assert (equation.astext(), equation["equation"], equation["ids"]) == ("a = b", "1.1", ["equation-1-1"])
    assert TAG.search("x \\tag{4.5}")[1] == "4.5"


def test_an_equation_that_does_not_exist_is_told(tmp_path):
    """(7.1) may be any number: there is no chapter 7. (2.9) is a slip, or a section that was meant."""
    write_book(tmp_path, second=SECOND + "\nSee (7.1) and (2.9).\n")
    app = SphinxTestApp("html", srcdir=tmp_path)
    app.builder.read()
    resolved(app, "chapters/02_second")
    told = app.warning.getvalue()
    app.cleanup()
    assert "(2.9) names an equation that no chapter has" in told
    assert "7.1" not in told


def test_two_equations_of_one_number_are_refused(tmp_path):
    write_book(tmp_path, second=SECOND.replace("2.1}", "1.1}"))
    app = SphinxTestApp("html", srcdir=tmp_path)
    with pytest.raises(ExtensionError, match=r"two equations have the tag 1\.1: in chapters/01_first and"):
        app.builder.read()
    app.cleanup()


# ----------------------------------------------------------------------------------------------------------- glossary


def test_the_first_use_of_a_term_leads_to_the_glossary(app):
    """The plural and the capital count as the word; headings, and later uses, are left alone."""
    assert links(app, "chapters/01_first", "term") == [
        ("storage", "../glossary.html#term-storage"),
        ("Segment", "../glossary.html#term-segment"),
    ]


def test_a_plural_leads_there_too_and_a_chapter_may_leave_a_word_alone(app):
    assert links(app, "chapters/02_second", "term") == [
        ("slots", "../glossary.html#term-slot"),
        ("storages", "../glossary.html#term-storage"),
    ]


def test_a_pointer_over_a_term_is_told_what_it_means(app):
    found = resolved(app, "chapters/01_first").findall(nodes.reference)
    assert [link["reftitle"] for link in found if "term" in link["classes"]] == ["The bytes.", "A piece."]


def test_the_glossary_itself_refers_to_sections_and_not_to_itself(app):
    assert links(app, "glossary", "term") == []
    assert links(app, "glossary", "cross-reference") == [("Section 2.1", "chapters/02_second.html#here")]


# -------------------------------------------------------------------------------------------------------- bibliography


def test_sources_lead_to_their_entries_by_title_or_address(app):
    found = links(app, "chapters/01_first", "bibliography-entry")
    assert [words for words, _ in found] == ["[1]", "[2]"]
    ids = {id for item in resolved(app, "bibliography").findall(nodes.list_item) for id in item["ids"]}
    assert {address.removeprefix("../bibliography.html#") for _, address in found} == ids


def test_entries_name_the_chapters_that_name_them(app):
    items = [item.astext() for item in resolved(app, "bibliography").findall(nodes.list_item)]
    assert [text.startswith(f"[{n}] ") and text.endswith("Chapter 1.") for n, text in enumerate(items, 1)] == [True] * 2


# ------------------------------------------------------------------------------------------------- what a page adds


def raw(document: nodes.document) -> str:
    return " ".join(node.astext() for node in document.findall(nodes.raw))


def test_an_explorer_keeps_its_table_in_a_place_of_its_own(app):
    html = raw(resolved(app, "chapters/01_first"))
    start = html.index('<div class="eb-explorer" data-explorer="small">')
    assert "<td>7</td>" in html[start : html.index("</div>", start)]
    assert app.env.metadata["chapters/01_first"]["explorers"] == ["small"]


def test_a_cell_names_the_explorer_that_it_makes():
    assert name_of("mlp_explorer()") == name_of("x = 1\nexplorer = mlp_explorer()\nexplorer") == "mlp"
    assert name_of("Explorer(title='', controls=[])") == name_of("explorer = mlp_explorer().value") == ""


def test_a_slider_that_needs_python_says_so(app):
    text = resolved(app, "chapters/01_first").astext()
    assert "VBox(" not in text
    assert "Here stands a slider." in text


def test_a_page_says_that_nothing_runs_and_that_results_can_be_hidden(app):
    assert "judged on this page." in resolved(app, "chapters/02_second").astext()
    assert "judged on this page." not in resolved(app, "index").astext()
    text = resolved(app, "chapters/01_first").astext()
    assert (
        "Where the text says Predict, guess before you look. Its result waits until you enter one or ask for it; Show "
        "results, above, shows them all. Cells can be changed and run in JupyterLab, which make lab opens in a clone "
        "of the book (how to run the book).\n\nMove it. A storage" in text
    )


def test_the_search_is_told_what_each_section_and_each_term_says(app):
    of_chapter = {anchor: (title, words) for anchor, title, words in sections(app.env.get_doctree("chapters/01_first"))}
    assert list(of_chapter) == ["", "a-storage", "exercise-1-a-segment", "sources"]
    assert of_chapter["a-storage"] == ("1.1 A storage", "In this section, storage and section 1.1.")
    assert "What is kept?" in of_chapter[""][1]
    assert "Explorer" not in of_chapter["a-storage"][1]
    assert re.search(r"\b7\b", of_chapter["sources"][1])  # a table in HTML, without its tags
    assert "<td>" not in of_chapter["sources"][1]
    assert "a = b" not in of_chapter[""][1]
    of_glossary = list(sections(app.env.get_doctree("glossary")))
    assert of_glossary[:3] == [
        ("", "Glossary", ""),
        ("term-segment", "segment", "A piece."),
        ("term-chunk", "chunk", "A piece."),
    ]


def test_what_a_chapter_opens_with(tmp_path):
    path = tmp_path / "01_first.ipynb"
    path.write_text(chapter(FIRST), encoding="utf-8")
    assert opening(path) == ("1. The first", "What is kept?", 40, 1)
    path.write_text(chapter(SECOND), encoding="utf-8")
    with pytest.raises(ValueError, match=r"01_first\.ipynb must open with # Title, \*\*The question\.\*\*"):
        opening(path)


def test_what_how_we_know_says_of_a_recording():
    """The subtraction that the page asks a sceptic to do."""
    from utils.recordings import recorded

    marks = {mark["name"]: mark["allocated"] for mark in recorded("mlp_gelu")["marks"]}
    text = (site.BOOK / "how_we_know.md").read_text(encoding="utf-8")
    difference = marks["forward"] - marks["input"]
    assert difference == 150_994_944 + 8_519_680
    for n in (marks["forward"], marks["input"], difference, 150_994_944, 8_519_680):
        assert f"{n:,}".replace(",", "{,}") in text


def test_recordings_are_counted_in_their_files():
    n, n_marks, n_events = counts(FOLDER)
    assert n == sum(1 for path in FOLDER.glob("*.json.gz")) - len(WITHOUT_A_CASE)
    assert n_marks > n
    assert n_events > 100_000


# -------------------------------------------------------------------------------------------------------------- KaTeX


@pytest.fixture(scope="module")
def katex():
    if shutil.which("npm") is None:
        pytest.skip("needs npm, for the site's mathematics")
    katex = Katex(site.install_parts() / "katex")
    yield katex
    katex.close()


@pytest.mark.long
def test_a_formula_is_html_and_mathml(katex):
    html = katex.html(r"\bar W_2 = \bar y^{\mathsf T} g", True)
    assert 'class="katex-html" aria-hidden="true"' in html
    assert "<math" in html


def test_a_formula_that_katex_does_not_know_stops_the_build(katex):
    with pytest.raises(ExtensionError, match=r"KaTeX cannot render '\\\\nothing'.*Undefined control sequence"):
        katex.html(r"\nothing", False)
    assert "<math" in katex.html("a", False)  # and node goes on


def test_the_bibliography_holds_every_address_that_sources_name():
    """But for papers' parts: a file at another version, a pull request."""
    bib = (site.BOOK / "references.bib").read_text(encoding="utf-8").lower()
    for path in sorted((site.ROOT / "chapters").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        sources = next(text for text in map("".join, (c["source"] for c in cells)) if text.startswith("## Sources"))
        for title, address in re.findall(r"\[([^\]]+)\]\((https?://[^)]+)\)", sources):
            assert address.lower() in bib or re.sub(r"[*`]", "", title).lower() in bib, (path.name, title)

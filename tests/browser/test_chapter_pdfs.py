"""A chapter's PDF, printed by Chromium: its links lead to places in it and to the web, and to no file here."""

import re
import zlib

import pytest

from tools.chapter_pdfs import SOLUTIONS_TO_THE_END, print_chapters
from tools.chromium import chromium
from tools.site import HTML, ROOT

PAGE = """<!doctype html><title>1. A chapter</title><article><section id="here"><h2>1.1 Here</h2>
<p>See <a href="#here">section 1.1</a>, <a href="02_second.html#there">section 2.1</a>, <a href="../index.html">the
front page</a>, <a href="#">the top</a>, <a href="#nowhere">nowhere</a> and <a href="https://example.org/x">another</a>.</p>
<details><summary>The answer in one sentence</summary><p>It is four.</p></details>
<div class="cell tag_check"><details class="hide"><summary>Check</summary><p>assert 2 + 2 == 4</p></details></div>
<details><summary>Answers</summary><p>1. Four.</p></details></section><section>
<h3>Exercise 1: a fold</h3><div class="cell"><details class="hide"><summary>Solution</summary>
<p>answer = 4</p></details></div></section></article>"""


def content(pdf: bytes) -> bytes:
    """A PDF's bytes, and behind them those of its compressed parts."""
    parts = re.findall(rb"/FlateDecode.*?stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL)
    return pdf + b"".join(zlib.decompressobj().decompress(part) for part in parts)


def test_a_pdf_links_to_the_web_and_to_itself_alone(tmp_path):
    (tmp_path / "chapters").mkdir()
    (tmp_path / "chapters" / "01_first.html").write_text(PAGE, encoding="utf-8")
    (file,) = print_chapters(tmp_path, tmp_path / "kept")
    found = content(file.read_bytes())
    assert b"https://example.org/x" in found
    assert b"file:" not in found
    assert str(tmp_path).encode() not in found


def test_a_page_is_printed_again_when_it_has_changed(tmp_path):
    (tmp_path / "chapters").mkdir()
    pages = [tmp_path / "chapters" / f"{name}.html" for name in ("01_first", "02_second")]
    for page in pages:
        page.write_text(PAGE, encoding="utf-8")

    def printed() -> list[tuple[bytes, int]]:
        files = print_chapters(tmp_path, tmp_path / "kept")
        kept = sorted((tmp_path / "kept").iterdir())
        assert [file.name for file in files] == ["01_first.pdf", "02_second.pdf"]
        assert len(kept) == 2
        return [(file.read_bytes(), place.stat().st_mtime_ns) for file, place in zip(files, kept, strict=True)]

    before = printed()
    assert printed() == before
    pages[1].write_text(PAGE.replace("1. A chapter", "2. A chapter"), encoding="utf-8")
    after = printed()
    assert after[0] == before[0]
    assert b"2. A chapter" in content(after[1][0])
    assert after[1] != before[1]


def test_the_answer_and_solutions_come_last_unfolded_and_checks_are_left_out():
    with chromium() as page:
        page.set_content(PAGE)
        page.evaluate(SOLUTIONS_TO_THE_END)
        lines = [line for line in page.locator("article").inner_text().split("\n") if line]
        assert lines[-5:-3] == ["The answer in one sentence", "It is four."]
        assert lines[-3:] == ["Solutions", "Exercise 1: a fold", "answer = 4"]
        assert page.locator("details").count() == 1  # one without a summary would be headed "Details"
        assert page.get_by_text("1. Four.").is_visible()
        assert page.get_by_text("assert 2 + 2 == 4").count() == 0


@pytest.mark.nightly
@pytest.mark.usefixtures("site")
def test_a_printed_chapter_says_where_its_solutions_are_and_where_cells_run():
    with chromium() as page:
        for chapter in sorted((HTML / "chapters").glob("*.html")):
            page.goto(chapter.as_uri())
            assert page.get_by_text("A solution is folded below each.").count() == 1
            page.evaluate(SOLUTIONS_TO_THE_END)
            page.emulate_media(media="print")
            assert page.get_by_text("A solution is folded below each.").count() == 0
            for words in (
                "Solutions come last.",
                "where each exercise judges your answer",
                "Cells can be changed and run in JupyterLab",
            ):
                assert page.get_by_text(words).is_visible()
            text = page.locator("article").inner_text()
            assert "run in JupyterLab, which make lab opens in a clone of the book." in text
            assert "how to run the book" not in text  # a link, of which paper would keep half a sentence
            assert not page.get_by_text("Show results, above").is_visible()


@pytest.mark.usefixtures("site")
def test_nothing_of_the_site_speaks_of_this_machine():
    """Neither a PDF nor what an explorer loads: test_site_html.py reads the pages."""
    files = [*HTML.glob("pdf/*.pdf"), *HTML.glob("_static/explorers-*/*.js")]
    assert {path.suffix for path in files} == {".pdf", ".js"}
    found = {path.name: content(path.read_bytes()) for path in files}
    assert [name for name, text in found.items() if str(ROOT).encode() in text or b"file:/" in text] == []

"""Prints each chapter of the built site to build/site/html/pdf/CHAPTER.pdf, through Chromium."""

import hashlib
import shutil
from pathlib import Path

from tools.chromium import chromium
from tools.whole_files import write_whole

# On paper nothing unfolds: the answer in one sentence and the solutions come last, these under the names of their
# exercises, other answers lie open, and what is folded to look behind, checks and bodies of functions, is left out.
SOLUTIONS_TO_THE_END = """() => {
  const FOLDED = "A solution is folded below each.", ANSWER = "The answer in one sentence";
  const article = document.querySelector("article");
  const heading = (level, words) => Object.assign(document.createElement(level), { textContent: words });
  article.querySelectorAll("div.cell:is(.tag_check, .tag_body)").forEach((cell) => cell.remove());
  const answer = [...article.querySelectorAll("details")].find((fold) => fold.firstElementChild.textContent === ANSWER);
  if (answer) {
    answer.firstElementChild.remove();
    article.append(heading("h2", ANSWER), ...answer.childNodes);
    answer.remove();
  }
  const folded = [...article.querySelectorAll("div.cell:has(> details.hide:not(.imports))")];
  if (folded.length) article.append(heading("h2", "Solutions"));
  for (const cell of folded) {
    const exercise = cell.closest("section").querySelector("h3").firstChild.textContent;
    const fold = cell.querySelector("details");
    cell.querySelector("summary").remove();
    fold.replaceWith(...fold.childNodes); // without a summary, a fold would be headed "Details"
    article.append(heading("h3", exercise), cell);
  }
  for (const words of article.querySelectorAll("p")) {
    if (words.textContent.includes(FOLDED)) words.innerHTML = words.innerHTML.replace(FOLDED, "Solutions come last.");
  }
  article.querySelectorAll("details").forEach((details) => (details.open = true));
}"""
# A printed link to another page would name the folder in which the site was built.
NO_LINKS_TO_FILES = """() => {
  for (const link of document.querySelectorAll("[href]:is(a, area)")) {
    if (!/^(#|https?:)/.test(link.getAttribute("href"))) link.removeAttribute("href");
  }
}"""
FOOTER = """<div style="width: 100%; padding: 0 17mm; font: 7pt sans-serif; text-align: right">
Every Byte, page <span class="pageNumber"></span></div>"""


PATIENCE_S = 300  # a page takes a second to load, but the accounts that are taken meanwhile leave it little of a CPU


def print_chapters(html: Path, kept: Path) -> list[Path]:
    """Prints them, and returns the files; one that was printed to `kept` of the same page is taken there."""
    (html / "pdf").mkdir(exist_ok=True)
    kept.mkdir(parents=True, exist_ok=True)
    pages = sorted((html / "chapters").glob("*.html"))
    places = {page: kept / f"{page.stem}-{hashlib.sha256(page.read_bytes()).hexdigest()[:16]}.pdf" for page in pages}
    for old in set(kept.iterdir()) - set(places.values()):
        old.unlink()
    if missing := [page for page in pages if not places[page].is_file()]:
        with chromium(viewport={"width": 800, "height": 1100}, color_scheme="light") as page:
            for chapter in missing:
                _print(page, chapter, places[chapter])
    return [Path(shutil.copy(place, html / "pdf" / f"{page.stem}.pdf")) for page, place in places.items()]


def _print(page, chapter: Path, place: Path) -> None:
    page.goto(chapter.as_uri(), timeout=PATIENCE_S * 1000)
    page.evaluate(SOLUTIONS_TO_THE_END)
    page.evaluate(NO_LINKS_TO_FILES)
    page.evaluate("document.fonts.ready")
    pdf = page.pdf(
        prefer_css_page_size=True,
        print_background=True,
        display_header_footer=True,
        header_template="<span></span>",
        footer_template=FOOTER,
        outline=True,
        tagged=True,
    )
    write_whole(place, pdf)

"""Writes the chapters' figures as SVG, for slides: `python -m tools.slides` fills build/slides, and packs a zip of it.

A diagram is taken as its chapter stores it. A figure of matplotlib's is drawn anew: of its chapter those cells run that
make what it shows. Text stays text. Each file says in itself whose it is, where it stands, and its licence.
"""

import io
import re
import sys
import zipfile
from collections.abc import Iterator
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode

from book.extensions.chapters import opening
from tools.needed_cells import Running
from tools.site_explorers import CODE, digest_of
from tools.whole_files import write_whole

ROOT = Path(__file__).resolve().parent.parent
SLIDES = ROOT / "build" / "slides"
ZIP = "every_byte_figures.zip"
SVG, PNG = "image/svg+xml", "image/png"
LICENCE = "https://creativecommons.org/licenses/by/4.0/"
CREDIT = "Every Byte, by The Every Byte authors, CC BY 4.0"
NOTE = f"""Figures of the textbook "Every Byte", as SVG, each named by its chapter and its cell.

You may use and change them for any purpose if you give credit, link to the licence, and say whether you made changes.
A fitting credit: "{CREDIT}".
The licence: {LICENCE}
"""
SECTION = re.compile(r"^## ((?:\d+\.\d+|Detour:) .+)$", re.MULTILINE)
OPENING_TAG = re.compile(r"<svg\b[^>]*>")


class Figure(NamedTuple):
    """A figure that a chapter shows before its exercises: its file's name, where it stands, and what it shows."""

    name: str
    notebook: Path
    cell: str
    chapter: str
    section: str
    alt: str
    is_diagram: bool


def figures() -> list[Figure]:
    """All figures of all chapters, in their order."""
    return [one for path in sorted((ROOT / "chapters").glob("*.ipynb")) for one in _figures_of(path)]


def _figures_of(path: Path) -> Iterator[Figure]:
    chapter, section = opening(path).title, ""
    for cell in _read(path).cells:
        if cell.cell_type == "markdown":
            if re.search(r"^## Exercises\b", cell.source, re.MULTILINE):
                return
            section = (SECTION.findall(cell.source) or [section])[-1]
        elif shown := _picture(cell):
            alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
            text = alt or " ".join(next(_data(cell, "text/plain")).split())
            yield Figure(
                f"{path.stem.partition('_')[0]}-{cell.id}", path, cell.id, chapter, section, text, shown == SVG
            )


def _picture(cell: NotebookNode) -> str:
    """The type of the picture that a cell shows, or "" where it shows none."""
    return next((mime for mime in (SVG, PNG) if next(_data(cell, mime), None)), "") if "outputs" in cell else ""


def _data(cell: NotebookNode, mime: str) -> Iterator[str]:
    return (output.data[mime] for output in cell.outputs if mime in output.get("data", {}))


def _read(path: Path) -> NotebookNode:
    return nbformat.reads(path.read_text(encoding="utf-8"), as_version=nbformat.NO_CONVERT)


def stored(figure: Figure, mime: str) -> str:
    """The picture as its chapter stores it: SVG as text, PNG in base64."""
    return next(_data(next(cell for cell in _read(figure.notebook).cells if cell.id == figure.cell), mime))


# ----------------------------------------------------------------------------------------------------------------- draw


def drawn(figure: object) -> str:
    """A figure of matplotlib's as SVG: its letters are letters, and it is the same each time."""
    import matplotlib as mpl

    text = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "Every Byte"}):
        figure.savefig(text, format="svg", bbox_inches="tight", metadata=nothing)
    # a label begins with a space, which would be dropped
    return OPENING_TAG.sub(lambda tag: tag[0].replace("<svg", '<svg xml:space="preserve"'), text.getvalue(), count=1)


# -------------------------------------------------------------------------------------------------------------- licence


def licensed(svg: str, figure: Figure) -> str:
    """An SVG that says what it shows, where it stands, whose it is, and under which licence."""
    place = f"chapter {figure.chapter}" + (f", section {figure.section}" if figure.section else "")
    spaces = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:cc="http://creativecommons.org/ns#"'
    said = (
        f"<title>{escape(figure.section or figure.chapter)}</title>"
        f"<desc>{escape(figure.alt)} From {escape(place)}. {CREDIT}: {LICENCE}</desc>"
        f'<metadata><rdf:RDF {spaces} xmlns:dc="http://purl.org/dc/elements/1.1/"><cc:Work rdf:about="">'
        f"<dc:title>{escape(figure.section or figure.chapter)}</dc:title>"
        f"<dc:creator>The Every Byte authors</dc:creator><dc:source>Every Byte, {escape(place)}</dc:source>"
        f'<cc:license rdf:resource="{LICENCE}"/></cc:Work></rdf:RDF></metadata>'
    )
    end = OPENING_TAG.search(svg).end()
    return f"{svg[:end]}{said}{svg[end:].rstrip()}\n"


def write(folder: Path = SLIDES, wanted: list[Figure] | None = None) -> list[Path]:
    """Writes each figure into a folder, and all in a zip beside them; returns the files, the zip last."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in [*folder.glob("*.svg"), folder / ZIP]:
        path.unlink(missing_ok=True)
    chapters: dict[Path, Running] = {}
    for one in figures() if wanted is None else wanted:
        if one.is_diagram:
            svg = stored(one, SVG)
        else:
            if one.notebook not in chapters:
                print(f"        figures of {one.notebook.stem}", flush=True)
            svg = drawn(chapters.setdefault(one.notebook, Running(_read(one.notebook))).shown_by(one.cell))
        (folder / f"{one.name}.svg").write_text(licensed(svg, one), encoding="utf-8")
    files = sorted(folder.glob("*.svg"))
    with zipfile.ZipFile(folder / ZIP, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(zipfile.ZipInfo("every_byte_figures/LICENCE.txt"), NOTE)
        for path in files:
            packed.writestr(zipfile.ZipInfo(f"every_byte_figures/{path.name}"), path.read_text(encoding="utf-8"))
    return [*files, folder / ZIP]


def refresh(folder: Path = SLIDES) -> None:
    """Writes them where what they are made of has changed since they were written."""
    code = [path for root in CODE for path in root.rglob("*.py")]
    made_of = [
        *code,
        *(ROOT / "chapters").glob("*.ipynb"),
        ROOT / "tools" / "slides.py",
        ROOT / "tools" / "needed_cells.py",
    ]
    now, stamp = digest_of(made_of, version("matplotlib"), version("torch")), folder / "made_by"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != now:
        stamp.unlink(missing_ok=True)
        write(folder)
        write_whole(stamp, now)


def main() -> int:
    """Write them all, and say where."""
    files = write()
    print(f"{len(files) - 1} figures in {SLIDES.relative_to(ROOT)}, and {ZIP} of all")
    return 0


if __name__ == "__main__":
    sys.exit(main())

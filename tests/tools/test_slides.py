"""Figures for slides: they are what chapters show, their text is text, and each says whose it is."""

import base64
import io
import re
import zipfile
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from places import ROOT

from tools import slides
from tools.needed_cells import Running

FIGURES = slides.figures()
CHARTS = [one for one in FIGURES if not one.is_diagram]
DIAGRAM = next(one for one in FIGURES if one.is_diagram)
LONG = ("04-predicted-figure", "05-points", "05-by-peak", "07-the-ladder")
QUICK = [one for one in CHARTS if one.name[:2] in ("00", "01", "03")]
SPACES = {"svg": "http://www.w3.org/2000/svg", "cc": "http://creativecommons.org/ns#"}
RESOURCE = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}resource"


@pytest.fixture(scope="module")
def chapters():
    """Chapters that have run as far as a figure needed them."""
    return {path: Running(slides._read(path)) for path in {one.notebook for one in CHARTS}}


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGBA"))


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "figure",
    [pytest.param(one, id=one.name, marks=[pytest.mark.nightly] if one.name in LONG else []) for one in CHARTS],
)
def test_a_chart_is_the_one_that_its_chapter_shows(figure, chapters):
    """Point by point: fewer cells ran than in the chapter, and they may not have been enough."""
    picture = io.BytesIO()
    chapters[figure.notebook].shown_by(figure.cell).savefig(picture, format="png", bbox_inches="tight")
    shown, drawn = pixels(base64.b64decode(slides.stored(figure, slides.PNG))), pixels(picture.getvalue())
    assert drawn.shape == shown.shape
    apart = np.abs(drawn.astype(int) - shown).max(axis=2)
    assert (apart > 8).mean() < 1e-4  # edges of another processor; a word that is another one has more


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder of the quick figures."""
    folder = tmp_path_factory.mktemp("slides")
    return folder, slides.write(folder, [*QUICK, DIAGRAM])


def words(svg: str) -> str:
    return " ".join("".join(node.itertext()) for node in ElementTree.fromstring(svg).iterfind(".//svg:text", SPACES))


@pytest.mark.nightly
def test_every_file_has_its_licence_and_its_chapter(written):
    _, files = written
    assert len(files) == len(QUICK) + 2
    for figure in [*QUICK, DIAGRAM]:
        svg = next(path for path in files if path.stem == figure.name).read_text(encoding="utf-8")
        root = ElementTree.fromstring(svg)
        assert root.find(".//cc:license", SPACES).get(RESOURCE) == "https://creativecommons.org/licenses/by/4.0/"
        said = root.find("svg:desc", SPACES).text
        assert figure.alt in said
        assert f"From chapter {figure.chapter}, section {figure.section}. Every Byte, by The Every Byte authors" in said
        assert "CC BY 4.0" in said


@pytest.mark.long
def test_text_stays_text(written):
    folder, _ = written
    svg = (folder / "00-whole-picture.svg").read_text(encoding="utf-8")
    assert "Two training steps: the needles reach above the T4" in words(svg)
    assert 'xml:space="preserve"' in svg
    assert words((folder / f"{DIAGRAM.name}.svg").read_text(encoding="utf-8"))


@pytest.mark.long
def test_a_diagram_is_the_stored_one_and_its_licence(written):
    folder, _ = written
    svg = (folder / f"{DIAGRAM.name}.svg").read_text(encoding="utf-8")
    added = re.compile(r"<title>.*</metadata>", re.DOTALL)
    assert added.sub("", svg).strip() == slides.stored(DIAGRAM, slides.SVG).strip()


@pytest.mark.long
def test_the_zip_has_all_of_them_and_a_note(written):
    folder, files = written
    with zipfile.ZipFile(folder / slides.ZIP) as packed:
        names = packed.namelist()
        note = packed.read("every_byte_figures/LICENCE.txt").decode()
        first = packed.read(f"every_byte_figures/{files[0].name}")
    assert names == ["every_byte_figures/LICENCE.txt", *(f"every_byte_figures/{path.name}" for path in files[:-1])]
    assert first == files[0].read_bytes()
    assert "https://creativecommons.org/licenses/by/4.0/" in note


@pytest.mark.long
def test_the_same_figure_is_the_same_file():
    """Made anew: one that has been drawn is laid out a little otherwise the second time."""
    figure = QUICK[0]
    once, again = (slides.drawn(Running(slides._read(figure.notebook)).shown_by(figure.cell)) for _ in range(2))
    assert once == again


def test_every_figure_before_the_exercises_is_there():
    names = [one.name for one in FIGURES]
    assert len(names) == len(set(names))
    assert {path.stem.partition("_")[0] for path in (ROOT / "chapters").glob("0*")} == {
        name.partition("-")[0] for name in names
    }
    assert "00-crowded-map" not in names  # an exercise's
    assert all(one.section and one.alt for one in FIGURES)


def test_they_are_drawn_anew_only_where_something_has_changed(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(slides, "write", drawn.append)
    slides.refresh(tmp_path)
    slides.refresh(tmp_path)
    assert drawn == [tmp_path]
    (tmp_path / "made_by").write_text("of another book", encoding="utf-8")
    slides.refresh(tmp_path)
    assert drawn == [tmp_path] * 2

"""The gallery: every explorer of the chapters is in it, and is called up by name at a setting as a page writes it."""

import json
import re
from pathlib import Path

import nbformat
import pytest

from utils.explorers.explorer import to_page
from utils.gallery import ALL, GALLERY, Shown, explorer

CHAPTERS = sorted((Path(__file__).parent.parent / "chapters").glob("*.ipynb"))


CALL = re.compile(r"^(?:\w+ = )?(\w+_explorer)\(\)$", re.MULTILINE)


def explorers_of_chapters() -> set[str]:
    cells = (cell for path in CHAPTERS for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    return {name for cell in cells for name in CALL.findall(cell.source)}


def test_it_has_the_explorers_of_all_chapters_and_no_other():
    assert explorers_of_chapters() == {shown.make.__name__ for shown in GALLERY.values()}


@pytest.mark.parametrize("name", GALLERY)
def test_stored_settings_are_settings_each_once(name):
    found = GALLERY[name].make()
    keys = [json.dumps(to_page(one, found)) for one in GALLERY[name].settings(found)]
    assert len(keys) == len(set(keys)) > 20
    assert keys[0] == json.dumps(to_page(found.value, found))


@pytest.mark.parametrize("name", GALLERY)
def test_a_setting_as_a_page_writes_it(name):
    settings = list(GALLERY[name].settings(GALLERY[name].make()))[-1]
    plain = GALLERY[name].make()
    found = explorer(name, **to_page(settings, plain))
    assert found.value == settings
    plain.value = settings
    assert repr(found) == repr(plain)


def test_all_stops_are_those_of_logarithmic_sliders():
    shown = Shown(GALLERY["phases"].make, ({"d": ALL},))
    with pytest.raises(
        ValueError, match=r"ALL is for choices and logarithmic sliders: got it for 'd'; name its values"
    ):
        list(shown.settings(shown.make()))


@pytest.mark.parametrize("name", GALLERY)
def test_the_table_that_a_chapter_stores_is_the_explorers(name):
    """The cell is live, so nbval does not compare it; pages without scripts and paper show this table."""
    stored = [
        output.data["text/html"]
        for path in CHAPTERS
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code" and CALL.findall(cell.source) == [GALLERY[name].make.__name__]
        for output in cell.outputs
        if "text/html" in output.get("data", {})
    ]
    data, _ = GALLERY[name].make()._repr_mimebundle_()
    assert stored == [data["text/html"]]


def test_errors_name_what_there_is():
    with pytest.raises(ValueError, match=r"name must be one of phases, mlp, .*: got name='mpl'\."):
        explorer("mpl")
    with pytest.raises(ValueError, match=r"the settings of .mlp. are b, s, d, .*dtype: got .batch.\."):
        explorer("mlp", batch=2)
    with pytest.raises(ValueError, match=r"dropout \(dropout\) must be one of off, p = 0\.1: got 'on'\."):
        explorer("mlp", dropout="on")

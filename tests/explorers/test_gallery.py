"""The gallery: every explorer of the chapters is in it, and is called up by name at a setting as a page writes it."""

import json
from dataclasses import replace

import nbformat
import places
import pytest

from book.extensions.explorers import name_of
from every_byte.gpu.memory.specs import SPECS
from every_byte.widget.explorer import to_page
from every_byte.widget.gpus import for_a_page
from every_byte.widget.settings import is_meant
from tools.sequences.stored import stored_sequences
from utils.experiments.checkpointed_step import OPTIMAL
from utils.explorers.gallery import ALL, GALLERY, Shown, explorer

pytestmark = pytest.mark.sampled(2, slow=True)

CHAPTERS = sorted(places.CHAPTERS.glob("*.ipynb"))


def code_cells() -> list:
    """Those of all chapters."""
    return [cell for path in CHAPTERS for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def test_it_has_the_explorers_of_all_chapters_and_no_other():
    assert {name_of(cell.source) for cell in code_cells()} == {"", *GALLERY}
    assert {shown.make.__name__ for shown in GALLERY.values()} == {f"{name}_explorer" for name in GALLERY}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:PyTorch .* runs here, and a simulated GPU follows")
@pytest.mark.parametrize("name", [name for name in GALLERY if name != "fragmentation"])  # its card is no other's
def test_an_account_says_whose_rules_it_follows(name, monkeypatch):
    for gpu, spec in SPECS.items():
        monkeypatch.setitem(SPECS, gpu, replace(spec, rules=replace(spec.rules, torch_version="9.8")))
    shown = GALLERY[name].make()
    assert shown.answer_at(shown.value)["badge"] == "simulated on a100-80gb, PyTorch 9.8 rules"


@pytest.mark.parametrize("name", GALLERY)
def test_stored_settings_are_settings_each_once(name):
    found = GALLERY[name].make()
    keys = [json.dumps(to_page(one, found)) for one in GALLERY[name].settings(found)]
    assert len(keys) == len(set(keys)) > (0 if stored_sequences(name) else 12)
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


@pytest.mark.long
@pytest.mark.parametrize("name", GALLERY)
def test_the_table_that_a_chapter_stores_is_the_explorers(name):
    """The cell is live, so nbval does not compare it; pages without scripts and paper show this table."""
    stored = [
        output.data["text/html"]
        for cell in code_cells()
        if name_of(cell.source) == name
        for output in cell.outputs
        if "text/html" in output.get("data", {})
    ]
    data, _ = GALLERY[name].make()._repr_mimebundle_()
    assert stored == [data["text/html"]]


def test_errors_name_what_there_is():
    with pytest.raises(ValueError, match=r"name must be one of phases, mlp, .*: got name='mpl'\."):
        explorer("mpl")
    with pytest.raises(ValueError, match=r"the settings of .mlp. are b, s, d, .*gpu: got .batch.\."):
        explorer("mlp", batch=2)
    with pytest.raises(ValueError, match=r"dropout \(dropout\) must be one of off, p = 0\.1: got 'on'\."):
        explorer("mlp", dropout="on")


IDLE = {
    "phases": [({"frozen": "none"}, {"f"}), ({"frozen": "all hidden"}, {"f"}), ({"frozen": "the last f"}, set())],
    "checkpoint": [
        ({"regions": "none"}, {"k", "policy", "budget_mib"}),
        ({"regions": "none", "policy": OPTIMAL}, {"k", "policy", "budget_mib"}),
        ({"regions": "every block"}, {"k", "budget_mib"}),
        ({"regions": "attention only", "policy": OPTIMAL}, {"k"}),
        ({"regions": "k segments"}, {"budget_mib"}),
        ({"regions": "every k-th block", "policy": OPTIMAL}, set()),
    ],
    "ranks": [
        ({"t": 1, "stage": "none"}, {"sequence", "n"}),
        ({"t": 1}, {"sequence"}),
        ({"t": 2, "stage": "none"}, {"n"}),
        ({"t": 2, "stage": "0"}, set()),
    ],
}


@pytest.mark.long
@pytest.mark.parametrize("name", GALLERY)
def test_which_controls_have_no_effect(name):
    """At these settings the named controls change neither the prediction nor the account; the others are used."""
    with for_a_page():  # on a machine with a GPU there is a control more, of which there are tests of its own
        found = GALLERY[name].make()
    start = {symbol: control.default for symbol, control in found.controls.items()} | dict(GALLERY[name].small)
    if name not in IDLE:
        assert not any(control.when for control in found.controls.values())
    for chosen, idle in IDLE.get(name, ()):
        settings = start | chosen
        names = to_page(settings, found)
        assert {symbol for symbol, control in found.controls.items() if not is_meant(control.when, names)} == idle
        for symbol in idle:
            other = settings | {symbol: OTHER[symbol]}
            assert settings != other
            assert found.predict(settings) == found.predict(other)
            assert found.answer_at(settings) == found.answer_at(other)


OTHER = {"f": 1, "k": 7, "policy": "keep matmuls", "budget_mib": 7, "sequence": "on, gathered again", "n": 3}

"""What a site stores of its explorers is taken once, and again when the book's code has changed."""

import shutil

import pytest

from tools import site_explorers
from tools.site_explorers import copy_explorers, fingerprint, store, store_all
from utils.gallery import GALLERY, Shown


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """An empty folder in the place of build/explorers, and a gallery of one explorer at few settings."""
    folder = tmp_path / "kept"
    folder.mkdir()
    monkeypatch.setattr(site_explorers, "KEPT", folder)
    monkeypatch.setitem(GALLERY, "mlp", Shown(GALLERY["mlp"].make, ({"b": (1, 2, 4)},)))
    return folder


def test_an_explorers_script_has_its_accounts(kept):
    name, seconds, n_settings = store("mlp")
    assert (name, n_settings) == ("mlp", 3)
    assert seconds > 0
    text = (kept / "mlp.js").read_text(encoding="utf-8")
    assert text.startswith('everyByte.explorer("mlp"')
    assert text.count('"terms":{') == 3


def test_what_is_there_is_not_taken_again(kept, tmp_path):
    store("mlp")
    (kept / "fingerprint").write_text(fingerprint(), encoding="utf-8")
    assert store_all() == []
    copy_explorers(tmp_path / "site")
    written = {path.name for path in (tmp_path / "site").iterdir()}
    assert written == {"mlp.js", "explorers.js", "explorer.css"}


def test_accounts_of_other_code_are_others(tmp_path, monkeypatch):
    before = fingerprint()
    code = tmp_path / "utils"
    shutil.copytree(site_explorers.UTILS, code, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(site_explorers, "UTILS", code)
    assert fingerprint() == before
    (code / "explorers" / "explorer.css").write_text("", encoding="utf-8")  # drawn in another way, the same accounts
    assert fingerprint() == before
    (code / "formulas.py").write_text("", encoding="utf-8")
    assert fingerprint() != before

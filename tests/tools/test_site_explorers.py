"""What a site stores of its explorers is taken once, and again when the book's code has changed."""

import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tools import site_explorers
from tools.sequences import stored
from tools.site_explorers import copy_explorers, fingerprint, folder_name, store, store_all
from utils.explorers.gallery import GALLERY, Shown

MLP = GALLERY["mlp"]


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """An empty folder in the place of build/explorers, and a gallery of one explorer at few settings."""
    folder = tmp_path / "kept"
    folder.mkdir()
    monkeypatch.setattr(site_explorers, "KEPT", folder)
    monkeypatch.setattr(stored, "FOLDER", tmp_path)  # no sequences
    monkeypatch.setitem(GALLERY, "mlp", Shown(GALLERY["mlp"].make, ({"b": (1, 2, 4)},)))
    return folder


def test_an_explorers_script_has_its_accounts(kept):
    name, seconds, n_settings = store("mlp")
    assert (name, n_settings) == ("mlp", 3)
    assert seconds > 0
    text = (kept / "mlp.js").read_text(encoding="utf-8")
    assert text.startswith('everyByte.explorer("mlp"')
    assert text.count('"terms":{') == 3
    assert store("mlp", 2)[2] == 2


def test_with_sequences_it_has_no_accounts(kept, monkeypatch):
    monkeypatch.undo()
    assert store("mlp", folder=kept)[2] == 0
    text = (kept / "mlp.js").read_text(encoding="utf-8")
    assert '"answers":{}' in text
    assert '"sequences":{"choices":["activation","dropout","dtype","gpu"]' in text


@pytest.mark.parametrize(
    ("error", "stops"),
    [
        (torch.OutOfMemoryError("CUDA out of memory: tried to allocate 8 GiB"), False),
        (RuntimeError("No available kernel. Of the attention backends enabled (flash), none takes"), False),
        (ValueError("PyTorch has no engine for ZeRO's stage 2, so there is only the prediction."), False),
        (ImportError("no module named sympy"), True),
        (RuntimeError("a meta tensor must have been made while a simulated GPU was open"), True),
    ],
)
def test_an_account_that_fails_stops_the_build_unless_cuda_would_say_so(kept, monkeypatch, error, stops):
    def make():
        explorer = MLP.make()
        measure = explorer.measure
        explorer.measure = lambda settings: measure(settings) if settings["b"] != 4 else fail(error)
        return explorer

    monkeypatch.setitem(GALLERY, "mlp", Shown(make, ({"b": (1, 2, 4)},)))
    if stops:
        with pytest.raises(type(error), match=str(error)):
            store("mlp")
        assert not (kept / "mlp.js").exists()
    else:
        store("mlp")
        assert json.dumps(str(error))[1:-1] in (kept / "mlp.js").read_text(encoding="utf-8")


def fail(error: Exception):
    raise error


def test_what_is_there_is_not_taken_again(kept, tmp_path):
    store("mlp")
    (kept / "fingerprint").write_text(fingerprint(), encoding="utf-8")
    assert store_all() == store_all(most=2) == []
    copy_explorers(tmp_path / "site")
    written = {path.name for path in (tmp_path / "site").iterdir()}
    assert written == {"mlp.js", "explorers.js", "explorer.css"}


def test_few_are_taken_once_and_do_where_few_are_asked_for(kept, monkeypatch):
    taken = []
    monkeypatch.setattr(site_explorers, "_names", lambda: taken.append("again") or [])
    monkeypatch.setattr(site_explorers, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))
    for most, times in ((2, 1), (2, 1), (None, 2), (None, 2), (2, 2), (3, 2)):
        store_all(n_processes=1, most=most)
        assert len(taken) == times, (most, times)


@pytest.mark.parametrize(("of", "other"), [(site_explorers, lambda name: f"{name} 9.8"), (sys, "9.8")])
def test_accounts_of_another_version_are_others(monkeypatch, of, other):
    before = fingerprint()
    assert fingerprint() == before
    monkeypatch.setattr(of, "version", other)
    assert fingerprint() != before


def test_accounts_of_other_code_are_others(tmp_path, monkeypatch):
    before, name = fingerprint(), folder_name()
    for folder in site_explorers.CODE:
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(site_explorers.ROOT / "book" / "sequences", tmp_path / "book" / "sequences")
    monkeypatch.setattr(site_explorers, "CODE", tuple(tmp_path / folder.name for folder in site_explorers.CODE))
    monkeypatch.setattr(site_explorers, "PAGE", tmp_path / site_explorers.PAGE.relative_to(site_explorers.ROOT))
    monkeypatch.setattr(site_explorers, "ROOT", tmp_path)
    assert (fingerprint(), folder_name()) == (before, name)
    (site_explorers.PAGE / "explorer.css").write_text("", encoding="utf-8")  # drawn in another way, the same accounts
    assert fingerprint() == before
    assert folder_name() != name  # or a browser would keep the old one
    drawn_otherwise = folder_name()
    (tmp_path / "utils" / "formulas" / "mlp.py").write_text("", encoding="utf-8")
    assert fingerprint() != before
    assert folder_name() != drawn_otherwise

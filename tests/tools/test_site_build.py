"""What tools/site.py needs of a machine, and what it says where something is missing."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from tools import site, site_explorers


def test_without_npm_the_site_says_what_it_needs(monkeypatch, tmp_path):
    monkeypatch.setattr(site, "NPM", tmp_path)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(SystemExit, match=r"The site needs Node\.js with npm"):
        site.install_parts()


def test_a_page_that_there_is_not_is_refused_before_anything_is_installed(monkeypatch):
    monkeypatch.setattr(site, "install_parts", lambda: pytest.fail("nothing is to be installed"))
    with pytest.raises(SystemExit, match="'nothing' is no page of book/ and no chapter: name its file"):
        site.build_one("nothing")


NPM = """#!/bin/sh
echo installed >> installs
sleep 0.3
mkdir -p node_modules
"""


def test_two_that_install_at_once_install_once(monkeypatch, tmp_path):
    """The second waits, and finds what it needs."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "npm").write_text(NPM, encoding="utf-8")
    (tmp_path / "bin" / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setattr(site, "NPM", tmp_path / "npm")
    with ThreadPoolExecutor(2) as pool:
        found = [one.result() for one in [pool.submit(site.install_parts) for _ in range(2)]]
    assert found == [tmp_path / "npm" / "node_modules"] * 2
    assert (tmp_path / "npm" / "installs").read_text(encoding="utf-8") == "installed\n"


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm, for the site's mathematics and type")
def test_what_comes_from_npm_comes_with_its_licence(monkeypatch, tmp_path):
    monkeypatch.setattr(site, "STATIC", tmp_path)
    site.copy_parts(site.install_parts())
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (tmp_path / "licences").glob("*.txt")}
    whose = {
        next((family for family in site.FONTS if family in font.name), "katex") for font in tmp_path.rglob("*.woff2")
    }
    assert whose == {"katex", *site.FONTS}
    assert set(texts) == {"katex", "minisearch", *site.FONTS}
    assert "The MIT License" in texts.pop("katex")
    assert "Permission is hereby granted, free of charge" in texts.pop("minisearch")
    assert all("SIL OPEN FONT LICENSE Version 1.1" in text for text in texts.values())


def test_a_site_without_pdfs_says_so(monkeypatch, capsys):
    monkeypatch.setattr(site, "find_chromium", lambda: None)
    assert not site.can_print()
    assert (
        "No PDFs: they are printed by Chromium, and none of chromium-headless-shell, chromium,"
        in capsys.readouterr().out
    )
    monkeypatch.setattr(site, "find_chromium", lambda: "chromium")
    assert site.can_print()
    assert capsys.readouterr().out == ""


@pytest.fixture
def small_site(monkeypatch, tmp_path):
    """A book of one page and one chapter, in the place of the real one; returns its folder."""
    for name in ("book/images", "chapters"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("book/index.md", "book/references.bib", "book/formula_sheet.html", "chapters/00_first.ipynb"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    monkeypatch.setattr(site, "finish_pages", lambda _new: None)  # there are none
    places = {"ROOT": tmp_path, "BOOK": tmp_path / "book", "SOURCE": tmp_path / "source", "KEPT": tmp_path / "kept"}
    for name, place in (places | {"HTML": tmp_path / "html", "NEW": tmp_path / "new"}).items():
        monkeypatch.setattr(site, name, place)
    monkeypatch.setattr(site_explorers, "ROOT", tmp_path)
    return tmp_path


def test_a_source_that_is_as_it_was_keeps_its_time(small_site):
    site.stage()
    times = {path: path.stat().st_mtime_ns for path in site.SOURCE.rglob("*") if path.is_file()}
    assert site.SOURCE / "chapters" / "00_first.ipynb" in times
    (small_site / "book" / "index.md").write_text("another", encoding="utf-8")
    (small_site / "chapters" / "00_first.ipynb").touch()
    (small_site / "book" / "references.bib").unlink()
    (small_site / "book" / "references.bib").write_text("book/references.bib", encoding="utf-8")
    (small_site / "chapters" / "01_second.ipynb").write_text("a second", encoding="utf-8")
    site.stage()
    changed = {path for path in site.SOURCE.rglob("*") if path.is_file() and times.get(path) != path.stat().st_mtime_ns}
    assert {path.name for path in changed} == {"index.md", "01_second.ipynb"}
    assert (site.SOURCE / "index.md").read_text(encoding="utf-8") == "another"
    (small_site / "chapters" / "01_second.ipynb").unlink()
    site.stage()
    assert not (site.SOURCE / "chapters" / "01_second.ipynb").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "book" / "conf.py").write_text("x = 1", encoding="utf-8"),
        lambda folder: (folder / "chapters" / "01_second.ipynb").write_text("a second", encoding="utf-8"),
        lambda folder: (folder / "book" / "references.bib").write_text("one more", encoding="utf-8"),
    ],
)
def test_all_is_read_again_where_what_makes_pages_has_changed(small_site, monkeypatch, change):
    def passes(*_args, **_options):
        (site.KEPT / "doctrees").mkdir(parents=True, exist_ok=True)
        (site.KEPT / "doctrees" / "one").touch()

    def build(run) -> bool:
        """Whether what was read before was kept."""
        site.stage()
        was_read = []
        monkeypatch.setattr(
            site.subprocess, "run", lambda *a, **k: (was_read.append((site.KEPT / "doctrees").exists()), run(*a, **k))
        )
        site.build_pages()
        return was_read[0]

    def fails(*_args, **_options):
        passes()
        raise subprocess.CalledProcessError(1, "sphinx")

    assert [build(passes), build(passes)] == [False, True]
    (small_site / "chapters" / "00_first.ipynb").write_text("edited", encoding="utf-8")
    assert build(passes)
    change(small_site)
    assert [build(passes), build(passes)] == [False, True]
    with pytest.raises(subprocess.CalledProcessError):  # what has warned must be read again, to warn again
        build(fails)
    assert [build(passes), build(passes)] == [False, True]

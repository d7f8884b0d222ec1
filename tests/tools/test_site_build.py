"""What tools/site.py needs of a machine, and what it says where something is missing."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from tools import site


def test_without_npm_the_site_says_what_it_needs(monkeypatch, tmp_path):
    monkeypatch.setattr(site, "NPM", tmp_path)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(SystemExit, match=r"The site needs Node\.js with npm"):
        site.install_parts()


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
    assert whose == set(texts) == {"katex", *site.FONTS}
    assert "The MIT License" in texts.pop("katex")
    assert all("SIL OPEN FONT LICENSE Version 1.1" in text for text in texts.values())


def test_a_site_without_pdfs_says_so(monkeypatch, capsys):
    monkeypatch.setattr(site, "find_chromium", lambda: None)
    assert not site.can_print()
    assert "No PDFs: they are printed by Chromium, and none of chromium," in capsys.readouterr().out
    monkeypatch.setattr(site, "find_chromium", lambda: "chromium")
    assert site.can_print()
    assert capsys.readouterr().out == ""

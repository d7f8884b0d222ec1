"""A release: its version stands everywhere or nowhere, and files that lack something are refused."""

import io
import shutil
import tarfile
import zipfile
from datetime import date

import pytest
from places import ROOT

from every_byte import __version__
from tools import release

TODAY = date(2030, 1, 31)
CHANGES = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n\n## [0.0.9] - 2029-01-01\n\n- Older.\n"


@pytest.fixture
def tree(tmp_path):
    """The three files in which a version stands."""
    (tmp_path / "every_byte").mkdir()
    (tmp_path / "every_byte" / "version.py").write_text('"""Its version."""\n\n__version__ = "0.1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    (tmp_path / "CITATION.cff").write_text("title: Every Byte\nversion: 0.1.0\ndate-released: 2029-01-01\n")
    return tmp_path


def texts(tree):
    return {path.name: path.read_text() for path in tree.rglob("*") if path.is_file()}


def test_a_version_is_written_where_it_stands(tree, capsys):
    release.prepare("0.2.0", tree, TODAY)
    found = texts(tree)
    assert release.stated(found["version.py"]) == "0.2.0"
    assert found["CHANGELOG.md"] == CHANGES.replace("ed]\n", "ed]\n\n## [0.2.0] - 2030-01-31\n", 1)
    assert found["CITATION.cff"] == "title: Every Byte\nversion: 0.2.0\ndate-released: 2030-01-31\n"
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.parametrize("version", ["0.1.0", "0.0.9", "new", "v0.2.0", "0.1.0.dev1", ""])
def test_what_is_no_later_version_is_refused_and_nothing_written(tree, version):
    before = texts(tree)
    with pytest.raises(ValueError, match=r"VERSION must be a version later than 0\.1\.0"):
        release.prepare(version, tree, TODAY)
    assert texts(tree) == before


def test_without_a_change_there_is_no_release(tree):
    (tree / "CHANGELOG.md").write_text(CHANGES.replace("### Added\n\n- A thing.\n\n", ""))
    before = texts(tree)
    with pytest.raises(ValueError, match="CHANGELOG.md must name changes"):
        release.prepare("0.2.0", tree, TODAY)
    assert texts(tree) == before


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(the sdist, the wheel made from it, the tree), as `--build` makes them."""
    folder = tmp_path_factory.mktemp("release")
    source = folder / "clean"
    for name in ("every_byte", "utils"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "CITATION.cff"):
        shutil.copy(ROOT / name, source)
    sdist = release._built("build_sdist", source, folder)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "from_sdist", filter="data")
    shutil.rmtree(source / "every_byte.egg-info")
    [unpacked] = (folder / "from_sdist").iterdir()
    return sdist, release._built("build_wheel", unpacked, folder), source


@pytest.mark.long
def test_what_is_handed_out_agrees(made):
    assert release.check(*made) == __version__


def without(wheel, folder, wanted, more=()):
    """A copy of a wheel without the file that ends so, with others."""
    changed = folder / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            if not (wanted and name.endswith(wanted)):
                new.writestr(name, old.read(name))
        for name in more:
            new.writestr(name, "")
    return changed


@pytest.mark.long
@pytest.mark.parametrize(
    ("left_out", "added", "said"),
    [
        ("ledger/ledger.py", (), "must hold every_byte alone"),
        (".js", (), "must hold every_byte alone"),
        ("", ("utils/__init__.py",), "must hold every_byte alone"),
        ("/LICENSE", (), "must bring the README as its description, and the licence"),
    ],
)
def test_a_wheel_that_lacks_something_is_refused(made, tmp_path, left_out, added, said):
    sdist, wheel, source = made
    with pytest.raises(ValueError, match=said):
        release.check(sdist, without(wheel, tmp_path, left_out, added), source)


@pytest.mark.long
def test_an_sdist_that_lacks_a_file_is_refused(made, tmp_path):
    sdist, wheel, source = made
    changed = tmp_path / sdist.name
    with tarfile.open(sdist) as old, tarfile.open(changed, "w:gz") as new:
        for member in old.getmembers():
            if not member.name.endswith("account.py"):
                new.addfile(member, io.BytesIO(old.extractfile(member).read()) if member.isfile() else None)
    with pytest.raises(ValueError, match="the sdist must hold all of every_byte"):
        release.check(changed, wheel, source)


def test_versions_that_differ_are_refused(made, tmp_path):
    sdist, wheel, source = made
    cited = tmp_path / "source"
    shutil.copytree(source, cited)
    (cited / "CITATION.cff").write_text("version: 9.9.9\n")
    with pytest.raises(ValueError, match="must be .* everywhere"):
        release.check(sdist, wheel, cited)


def test_the_repository_is_one_version():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert release.UNRELEASED in changes
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_one_of_the_two_is_asked_for(capsys):
    for arguments in ([], ["0.2.0", "--build"]):
        with pytest.raises(SystemExit):
            release.main(arguments)
    assert "either a version or --build" in capsys.readouterr().err


def test_a_tree_with_changes_is_not_built(monkeypatch, capsys):
    monkeypatch.setattr(release, "_run", lambda command, folder: " M README.md\n")
    assert release.main(["--build"]) == 1
    assert "everything must be committed" in capsys.readouterr().err

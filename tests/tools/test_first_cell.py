"""The cell that fetches the book: in every chapter, harmless where the book is, enough where it is not."""

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import nbformat
import pytest
from places import ROOT

from tools import first_cell
from tools.first_cell import CELL_ID, SOURCE, TAGS, address_in, needed, put_into, with_address
from tools.notebooks import differences, normalise

CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
CITED = "title: Every Byte\nversion: 0.1.0\ndate-released: 2029-01-01\n"
RUN = """
import sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=600, kernel_name="python3", store_widget_state=False, coalesce_streams=True).execute()
nbformat.write(notebook, sys.argv[1])
"""


def test_each_chapter_has_it_as_it_is_written_now():
    address = address_in(first_cell.CITATION.read_text(encoding="utf-8"))
    for before in (path.read_text(encoding="utf-8") for path in CHAPTERS):
        notebook = json.loads(before)
        put_into(notebook, address)
        assert notebook == json.loads(before), "python -m tools.first_cell writes it"
        assert notebook["cells"][1]["id"] == CELL_ID
        assert notebook["cells"][1]["metadata"] == {"jupyter": {"source_hidden": True}, "tags": TAGS}


def test_the_address_stands_in_one_place():
    once = with_address(CITED, "https://example.org/a")
    assert once.splitlines()[1:3] == ["version: 0.1.0", 'repository-code: "https://example.org/a"']
    assert address_in(once) == "https://example.org/a"
    assert with_address(once, "https://example.org/b") == once.replace("org/a", "org/b")
    assert address_in(CITED) == ""


def run_cell(folder: Path, address: str = "", beside: str = "", **environment: str) -> subprocess.CompletedProcess:
    """The cell, with that address in it, in a Python that has neither of the book's packages."""
    script = folder / "cell.py"
    script.write_text(f"{SOURCE.format(address=address)}\n{beside}", encoding="utf-8")
    known = {name: value for name, value in os.environ.items() if name not in ("EVERY_BYTE_ADDRESS", "PYTHONPATH")}
    command = [sys.executable, "-I", "-S", str(script)]
    return subprocess.run(command, cwd=folder, env=known | environment, capture_output=True, text=True)


def repository(folder: Path, said: str) -> str:
    """The address of a git repository whose tools/first_cell.py prints something in place of an installation."""
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / "first_cell.py").write_text(f"def install():\n    print({said!r})\n", encoding="utf-8")
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", said], ["tag", said]):
        subprocess.run([*git, *words], check=True)
    return folder.as_uri()


def test_without_an_address_it_says_so_plainly(tmp_path):
    ran = run_cell(tmp_path)
    last = ran.stderr.strip().splitlines()[-1]
    assert last == (
        "RuntimeError: The book is not here, and its address is not known: %env EVERY_BYTE_ADDRESS=https://…"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cell.py"]


def test_it_fetches_once_and_hands_over(tmp_path):
    address = repository(tmp_path / "there", "v1")
    here = tmp_path / "here"
    here.mkdir()
    for said in ("Fetching the book: a minute.\nv1\n", "v1\n"):
        ran = run_cell(here, address)
        assert (ran.stdout, ran.returncode) == (said, 0), ran.stderr


def test_an_address_may_name_a_tag_and_the_environment_another_repository(tmp_path):
    address = repository(tmp_path / "there", "v1")
    ran = run_cell(tmp_path, "https://127.0.0.1:9/none", EVERY_BYTE_ADDRESS=f"{address}#v1")
    assert ran.stdout.splitlines()[-1] == "v1", ran.stderr
    (tmp_path / "other").mkdir()
    assert "v2" in run_cell(tmp_path / "other", f"{address}#v2").stderr  # as git says: there is none


def test_in_a_clone_opened_with_another_python_it_fetches_nothing(tmp_path):
    repository(tmp_path, "here")
    (tmp_path / "chapters").mkdir()
    assert run_cell(tmp_path / "chapters").stdout == "here\n"


def test_where_the_book_is_it_does_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "run", None)
    path = list(sys.path)
    exec(SOURCE.format(address="https://127.0.0.1:9/none"), {})
    assert sys.path == path


def test_it_installs_what_is_missing_as_pinned_and_leaves_the_rest(monkeypatch):
    said = {}

    def run(command, check):
        said["command"], said["pins"] = command, Path(command[command.index("-c") + 1]).read_text()

    class Found:
        def __init__(self, name, version):
            self.metadata, self.version = {"Name": name}, version

    found = {"torch": "2.10.0+cu128", "matplotlib": "3.9", "ipywidgets": "7.7.1", "Typing_Extensions": "4.1"}
    there = [Found(*pair) for pair in (found | {"transformers": "4.57.6", "tokenizers": "0.22.0"}).items()]
    monkeypatch.setattr(first_cell.subprocess, "run", run)
    monkeypatch.setattr(first_cell.metadata, "distributions", lambda: there)
    monkeypatch.setenv("PYTHONPATH", "before")
    first_cell.install()
    assert said["command"][-2:] == ["anywidget>=0.9.18", "transformers>=5.0"]
    names = {line.split("==")[0] for line in said["pins"].splitlines()}
    assert {"anywidget", "psygnal", "transformers"} <= names
    assert not {"torch", "ipywidgets", "typing-extensions", "tokenizers"} & names
    assert os.environ["PYTHONPATH"] == os.pathsep.join([str(ROOT), "before"])


def test_what_is_needed_is_what_a_reader_installs():
    names = [re.match(r"[\w-]+", line)[0] for line in needed()]
    assert names == ["torch", "matplotlib", "anywidget", "ipywidgets", "transformers"]


# ---------------------------------------------------------------------------- a machine as Colab is, without the book


def without_the_book(folder: Path) -> Path:
    """A Python that has all that is installed here but the book and anywidget."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    site = Path(
        subprocess.check_output([python, "-c", "import site; print(site.getsitepackages()[0])"], text=True).strip()
    )
    left_out = re.compile(r"_*(editable|every_byte|anywidget|psygnal)|.*\.pth$")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not left_out.match(path.name):
            (site / path.name).symlink_to(path)
    return python


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """That of a repository with the files that are here now."""
    bare = tmp_path_factory.mktemp("repository") / "every-byte.git"
    git = ["git", f"--git-dir={bare}", f"--work-tree={ROOT}", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "as it is"]):
        subprocess.run([*git, *words], check=True, cwd=ROOT)
    return bare.as_uri()


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["00_start_here", "02_mlp_memory", "08_your_own"])
def test_a_chapter_alone_in_a_folder_runs_and_shows_what_is_stored(tmp_path, address, name):
    python = without_the_book(tmp_path / "venv")
    chapter = ROOT / "chapters" / f"{name}.ipynb"
    (folder := tmp_path / "content").mkdir()
    alone = folder / chapter.name
    alone.write_bytes(chapter.read_bytes())
    known = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    known |= {"EVERY_BYTE_ADDRESS": address, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([python, "-c", RUN, alone.name], cwd=folder, env=known, check=True, timeout=900)
    stored, found = (normalise(nbformat.read(path, as_version=4)) for path in (chapter, alone))
    assert found.cells[1].outputs[0].text == "Fetching the book: a minute.\nInstalling anywidget.\n"
    stored.cells[1].outputs = found.cells[1].outputs
    assert differences(stored, found) == []

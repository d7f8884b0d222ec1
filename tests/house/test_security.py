"""What book/security.md says of a reader's machine, by what the code imports, and what a run touches."""

import ast
import json
import pickle
import re
from functools import cache
from pathlib import Path

import nbformat
import pytest
from hostile_snapshots import imports as importing_snapshots
from hostile_snapshots import snapshot_of
from places import ROOT
from watched import watched

from every_byte.ledger.plain_pickles import MOST_BYTES, OF_A_FILE, NotPlain, loads
from tools.first_cell import CELL_ID

TEXT = (ROOT / "book" / "security.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
NOTEBOOKS = [*sorted((ROOT / "chapters").glob("*.ipynb")), ROOT / "book" / "quiz.ipynb"]
PACKAGE = sorted((ROOT / "every_byte").rglob("*.py"))
SHARED = sorted((ROOT / "utils").rglob("*.py"))
FOLDERS_OF_SCRIPTS = ("every_byte/*/page", "book/_static", "tools/lab_predictions")
SCRIPTS = [path for folder in FOLDERS_OF_SCRIPTS for path in ROOT.glob(f"{folder}/*.js")]

NETWORK = set(
    "socket ssl http urllib urllib3 requests httpx aiohttp asyncio ftplib smtplib poplib imaplib telnetlib xmlrpc "
    "socketserver webbrowser huggingface_hub".split()
)
WITHOUT_A_NETWORK = {"sources.py": {"asyncio"}}
"""Cells of a notebook may await: an event loop runs them, and reaches nothing by itself."""
UNPICKLING = {f"{module}.{name}" for module in ("pickle", "torch") for name in ("load", "loads", "Unpickler")}
OF_CHAPTERS = set(
    "contextlib dataclasses functools inspect itertools ipywidgets random sys textwrap weakref "
    "torch every_byte utils".split()
)
WRITING = set("open write_text write_bytes mkdir unlink remove rename rmtree savefig save system Popen".split())
RUNS_OR_ASKS = (
    r"\beval\(|new Function|\bfetch\(|XMLHttpRequest|WebSocket|sendBeacon|\bimport\(|importScripts|document\.write"
)
TRAIN = """
import torch
model = torch.nn.Linear(64, 64).to("cuda")
model(torch.randn(8, 64, device="cuda")).sum().backward()
torch.save(model.state_dict(), "model.pt")
"""
OWN = """
import os, socket, subprocess
os.chdir({folder!r})
open("own.txt", "w").close()
socket.socket().bind(("127.0.0.1", 0))
subprocess.run(["true"])
"""


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.AST) -> set[str]:
    """Whole names of the modules that are imported anywhere, relative ones left out."""
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return found | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level}


def tops(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def test_it_is_one_screen():
    assert len(TEXT.splitlines()) <= 45


# ------------------------------------------------------------------------------------------------------- the package


@pytest.mark.long
@pytest.mark.parametrize("paths", [PACKAGE, SHARED], ids=["every_byte", "utils"])
def test_nothing_that_reaches_a_network_is_imported(paths):
    found = {path.name: tops(imported(tree_of(path))) & NETWORK for path in paths}
    assert {name: modules for name, modules in found.items() if modules - WITHOUT_A_NETWORK.get(name, set())} == {}


@pytest.mark.long
def test_no_pickle_is_opened():
    """Python's pickle writes, and no more; torch.load is what a program calls, and not the package.

    But for a process that the program spawns: it reads what its parent has written into the command that starts it, as
    multiprocessing itself does.
    """
    with_pickle = {path.name for path in PACKAGE if "pickle" in tops(imported(tree_of(path)))}
    assert with_pickle == {"trace.py", "spawned.py", "opened.py"}
    others = [path for path in PACKAGE if path.name != "opened.py"]
    calls = [node for path in others for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
    called = {ast.unparse(call.func) for call in calls}
    assert "pickle.dumps" in called
    assert not UNPICKLING & called


@pytest.mark.parametrize("data", [pytest.param(data, id=what) for what, data in importing_snapshots()])
def test_a_snapshot_that_would_run_something_is_refused(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotPlain):
        loads(data)
    assert list(tmp_path.iterdir()) == []


def test_its_limits_are_those_of_the_page():
    assert "It may have 128 MiB, and take 1 GiB of memory to open, unless `--most-mib`" in TEXT
    assert (MOST_BYTES // OF_A_FILE, MOST_BYTES) == (128 * 2**20, 2**30)


# ------------------------------------------------------------------------------------------------------------ what runs


def within(folder: Path, names: list[str]) -> set[str]:
    """The places of files below a folder; one elsewhere keeps its whole path."""
    names = [re.sub(r"\.\d+\.partial$", "", name) for name in names]  # a file that is not whole yet has another name
    places = {Path(name).resolve() for name in names if name != "/dev/null"}
    return {str(place.relative_to(folder) if place.is_relative_to(folder) else place) for place in places}


def started(found: dict) -> list[str]:
    """The programs that were started, but for those by which matplotlib looks for fonts, a CUDA build for libraries."""
    return [one for one in found["starts"] if "fc-list" not in one and "ldconfig" not in one]


@pytest.mark.long
def test_a_run_writes_its_report_and_what_the_script_does_and_connects_nowhere(tmp_path):
    folder = tmp_path / "run"
    script, pages = tmp_path / "train.py", ("--html", "report.html", "--json", "figures.json")
    script.write_text(TRAIN, encoding="utf-8")
    found = watched(folder, "every_byte", "run", *pages, str(script))
    assert (found["reaches"], started(found)) == ([], [])
    assert within(folder, found["writes"]) == {"report.html", "figures.json"}
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {"report.html", "figures.json", "model.pt"}


@pytest.mark.nightly
def test_a_script_of_a_run_is_in_no_sandbox(tmp_path):
    """Its checkpoint that was there stays; what else it does is done."""
    folder = tmp_path / "run"
    script, there = tmp_path / "train.py", tmp_path / "model.pt"
    there.write_bytes(b"weights")
    script.write_text(f"{OWN.format(folder=str(tmp_path))}{TRAIN}", encoding="utf-8")
    found = watched(folder, "every_byte", "run", str(script))
    assert len(found["reaches"]) == len(started(found)) == 1
    assert (tmp_path / "own.txt").exists()
    assert (tmp_path / "model.pt.kept").read_bytes() == b"weights"


@pytest.mark.long
def test_reading_a_snapshot_writes_what_is_named_and_runs_nothing(tmp_path):
    folder, snapshot = tmp_path / "read", tmp_path / "snapshot.pickle"
    entry = {"action": "alloc", "addr": 512, "size": 512, "stream": 0, "frames": [], "time_us": 1}
    snapshot.write_bytes(pickle.dumps(snapshot_of([entry])))
    found = watched(folder, "every_byte", "read", "--html", "told.html", str(snapshot))
    assert (found["reaches"], started(found)) == ([], [])
    assert within(folder, found["writes"]) == {"told.html"}


# ------------------------------------------------------------------------------------------------------------- chapters


def cells_of(notebook: Path) -> list[str]:
    """The sources of its code, but for the cell that does nothing where the book is: tests/tools/test_first_cell.py."""
    cells = nbformat.read(notebook, as_version=4).cells
    return [cell.source for cell in cells if cell.cell_type == "code" and cell.id != CELL_ID]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_chapter_imports_the_book_and_harmless_parts_of_python_and_writes_nothing(notebook):
    for source in cells_of(notebook):
        assert not re.search(r"^\s*[!%]", source, re.MULTILINE), source
        tree = ast.parse(source)
        assert tops(imported(tree)) <= OF_CHAPTERS
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        names = {one.id if isinstance(one, ast.Name) else getattr(one, "attr", "") for one in calls}
        assert not names & WRITING


@pytest.mark.nightly
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_chapter_that_runs_connects_nowhere_and_writes_caches_alone(notebook, tmp_path):
    folder = tmp_path / "book"
    found = watched(folder, notebook)
    assert found["reaches"] == []
    others = started(found)
    # chapter 5 compiles, by any compiler that is there
    starts = {"08": "every_byte", "qu": "every_byte", "05": ""}.get(notebook.stem[:2])
    assert all(starts is not None and starts in one for one in others), others
    left = [str(path) for path in folder.rglob("*") if path.is_file()]
    places = within(folder, found["writes"]) | within(folder, left)
    apart = {place for place in places if not place.startswith(("home/.cache", "home/.config", "temporary/"))}
    assert apart <= {".", "home", "temporary"}  # folders that are there


# ---------------------------------------------------------------------------------------- scripts, the lab and the site


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_runs_text_or_asks_for_anything(path):
    text = re.sub(r"^\s*//.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert not re.findall(RUNS_OR_ASKS, text)
    # the one place that writes HTML writes a constant
    assert [line for line in re.findall(r"innerHTML.*", text) if "${" in line] == []


def test_the_lab_listens_on_this_machine_alone_and_asks_for_its_token():
    recipe = MAKEFILE.split("\nlab:")[1].split("\n\n")[0]
    assert "--ServerApp.ip=127.0.0.1 " in recipe
    assert not re.search(r"token|password|allow_origin|disable_check_xsrf|allow_remote|allow_unauthenticated", recipe)


def test_what_the_site_takes_from_npm_runs_no_script_of_a_package():
    site = (ROOT / "tools" / "site.py").read_text(encoding="utf-8")
    (command,) = re.findall(r'\["npm", .*?\]', site)
    assert json.loads(command)[:3] == ["npm", "ci", "--ignore-scripts"]


def test_the_files_that_the_page_names_are_there():
    named = set(re.findall(r"`((?:tests|locks)/[\w./]+|constraints\.txt|SECURITY\.md)`", TEXT))
    assert len(named) == 5
    assert [name for name in named if not (ROOT / name).is_file()] == []
    assert "(book/security.md)" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "security.md" in (ROOT / "book" / "index.md").read_text(encoding="utf-8")

"""What all browser tests share: a real Chromium; a notebook in JupyterLab or a bare page in it; the built site."""

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from bare_page import bare_page
from chapter import ChapterInPython
from explorer_page import ExplorerPage
from lab import Lab, lab_server
from places import ROOT

from tools.chromium import NAMES, find_chromium, kept

_HERE = Path(__file__).parent
_NEEDS_CHROMIUM = pytest.mark.skipif(
    find_chromium() is None, reason=f"needs Chromium: one of {', '.join(NAMES)} on the PATH"
)


@pytest.hookimpl(tryfirst=True)  # before -m chooses by marker
def pytest_collection_modifyitems(items):
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(_NEEDS_CHROMIUM)


@pytest.fixture(scope="session", autouse=True)
def _one_chromium():
    """All pages are in one Chromium."""
    with kept():
        yield


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """The JupyterLab in which notebooks are opened."""
    folder = tmp_path_factory.mktemp("lab")
    with lab_server(folder, tmp_path_factory.mktemp("jupyter")) as (address, token):
        yield Lab(folder, address, token)


@pytest.fixture(scope="module")
def page(request, tmp_path_factory):
    """In JupyterLab the notebook that the test file names NOTEBOOK, or one of its CELL alone; else a bare page."""
    notebook = _opened(request.module, tmp_path_factory)
    if notebook is None:
        with bare_page() as page:
            yield page
        return
    lab = request.getfixturevalue("lab")
    with lab.opened(notebook, viewport={"width": 1280, "height": 1000}) as page:
        yield page


def _opened(module, tmp_path_factory) -> Path | None:
    """The notebook of a test file: its NOTEBOOK, or one of its CELL alone."""
    cell = getattr(module, "CELL", None)
    return getattr(module, "NOTEBOOK", None) if cell is None else _notebook_of(cell, tmp_path_factory.mktemp("book"))


def _notebook_of(cell: str, folder: Path) -> Path:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, folder / "one_cell.ipynb")
    return folder / "one_cell.ipynb"


@pytest.fixture(scope="session")
def site(tmp_path_factory, worker_id, pytestconfig):
    """The site in build/site/html, as `make site` makes it, once for all processes; by day with few accounts."""
    if shutil.which("npm") is None:
        pytest.skip("needs npm, for the site's mathematics and type")
    base = tmp_path_factory.getbasetemp()
    of_the_run = base if worker_id == "master" else base.parent
    with open(of_the_run / "site.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (of_the_run / "site.built").exists():
            few = ["--few"] if "not nightly" in pytestconfig.option.markexpr else []
            command = [sys.executable, "-m", "tools.site", *few]
            build = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            assert build.returncode == 0, build.stdout[-2000:] + build.stderr[-4000:]
            print(build.stdout)
            (of_the_run / "site.built").touch()


@pytest.fixture
def explorer(page):
    """The page's explorer, with the account of its setting."""
    explorer = ExplorerPage(page)
    explorer.settle()
    return explorer


@pytest.fixture(scope="module")
def python(request, tmp_path_factory):
    """The explorer of that notebook or cell outside Jupyter."""
    with ChapterInPython(_opened(request.module, tmp_path_factory)) as chapter:
        yield chapter

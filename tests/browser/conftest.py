"""What all browser tests share: a real Chromium; a notebook in JupyterLab or a bare page in it; the built site."""

import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from bare_page import bare_page
from chapter import ChapterInPython
from explorer_page import ExplorerPage
from lab import REPOSITORY, open_chapter

from tools.chromium import find_chromium

_HERE = Path(__file__).parent
_NEEDS_CHROMIUM = pytest.mark.skipif(
    find_chromium() is None, reason="needs Chromium: chromium or google-chrome on the PATH"
)


@pytest.hookimpl(tryfirst=True)  # before -m chooses by marker
def pytest_collection_modifyitems(items):
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(_NEEDS_CHROMIUM)


@pytest.fixture(scope="module")
def page(request, tmp_path_factory):
    """In JupyterLab the notebook that the test file names NOTEBOOK, or one of its CELL alone; else a bare page."""
    notebook, cell = (getattr(request.module, name, None) for name in ("NOTEBOOK", "CELL"))
    if cell is not None:
        notebook = _notebook_of(cell, tmp_path_factory.mktemp("book"))
    if notebook is None:
        with bare_page() as page:
            yield page
        return
    with open_chapter(notebook, tmp_path_factory.mktemp("lab"), viewport={"width": 1280, "height": 1000}) as page:
        yield page


def _notebook_of(cell: str, folder: Path) -> Path:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, folder / "one_cell.ipynb")
    return folder / "one_cell.ipynb"


@pytest.fixture(scope="session")
def site():
    """The site in build/site/html, made as `make site` makes it."""
    if shutil.which("npm") is None:
        pytest.skip("needs npm, for the site's mathematics and type")
    build = subprocess.run([sys.executable, "-m", "tools.site"], cwd=REPOSITORY, capture_output=True, text=True)
    assert build.returncode == 0, build.stdout[-2000:] + build.stderr[-4000:]
    print(build.stdout)


@pytest.fixture
def explorer(page):
    """The page's explorer, with the account of its setting."""
    explorer = ExplorerPage(page)
    explorer.settle()
    return explorer


@pytest.fixture(scope="module")
def python(request):
    """The explorer of that notebook outside Jupyter."""
    with ChapterInPython(request.module.NOTEBOOK) as chapter:
        yield chapter

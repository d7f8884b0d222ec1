"""What all browser tests share: they drive a real Chromium, and `page` is a chapter in JupyterLab or a bare page."""

from pathlib import Path

import pytest
from bare_page import bare_page
from chapter import ChapterInPython
from lab import open_chapter

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
    """The notebook that the test file names NOTEBOOK, open in JupyterLab with all cells run; else a bare page."""
    notebook = getattr(request.module, "NOTEBOOK", None)
    if notebook is None:
        with bare_page() as page:
            yield page
        return
    with open_chapter(notebook, tmp_path_factory.mktemp("lab"), viewport={"width": 1280, "height": 1000}) as page:
        yield page


@pytest.fixture(scope="module")
def python(request):
    """The explorer of that notebook outside Jupyter."""
    with ChapterInPython(request.module.NOTEBOOK) as chapter:
        yield chapter

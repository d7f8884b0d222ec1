"""The report of a program that ran on a GPU, as it is printed, shown and written."""

from pathlib import Path
from typing import Any

from every_byte.whole_files import write_whole

from .render import figures, notebook, page, text
from .run import Run


class Report(Run):
    """A run that can be shown: printed, a page of plain text; `save` writes a page for a browser.

    Made by `Report.of(gpu)`, as `Run.of`.

    Example: print(Report.of(gpu))
    """

    def __repr__(self) -> str:
        return text.text_of(self)

    def _repr_html_(self) -> str:
        return notebook.html_of(self)

    def to_json(self) -> dict[str, Any]:
        """Its figures as plain JSON, to be kept, and compared with those of another run: see `figures.py`."""
        return figures.figures(self)

    def html(self) -> str:
        """One page for a browser, which needs neither a network nor other files."""
        return page.html_of(self)

    def save(self, path: str | Path) -> Path:
        """Write that page to a file."""
        path = Path(path)
        write_whole(path, self.html())
        return path

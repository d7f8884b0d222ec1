"""How many recordings the simulated GPU is held to, counted in the files themselves when the site is built."""

import gzip
import json
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from utils.recordings import RECORDINGS

FOLDER = RECORDINGS  # of the version whose rules the book follows
KINDS = {"training and parts of it": FOLDER, "many small calls, of random sizes": FOLDER / "operations"}


def counts(folder: Path) -> tuple[int, int, int]:
    """Recordings with marks that lie in a folder, their marks, their events."""
    found = [0, 0, 0]
    for path in folder.glob("*.json.gz"):  # one after the other: all of them are millions of objects
        run = json.loads(gzip.decompress(path.read_bytes()))
        if isinstance(run, dict) and run.get("marks"):
            own = 1, len(run["marks"]), len(run.get("events", ()))
            found = [n + more for n, more in zip(found, own, strict=True)]
    return tuple(found)


class Recordings(SphinxDirective):
    """The table of what was recorded: ```{recordings}```."""

    def run(self) -> list[nodes.Node]:
        rows = [(kind, *counts(folder)) for kind, folder in KINDS.items()]
        lines = ["programs", "recordings", "marks", "events"]
        head = "".join(f'<th style="text-align:{"right" if i else "left"}">{word}</th>' for i, word in enumerate(lines))
        body = "".join(
            f'<tr><td>{kind}</td>{"".join(f"""<td style="text-align:right">{n:,}</td>""" for n in numbers)}</tr>'
            for kind, *numbers in rows
        )
        html = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return [nodes.raw("", f'<div class="pst-scrollable-table-container">{html}</div>', format="html")]


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.add_directive("recordings", Recordings)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

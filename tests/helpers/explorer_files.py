"""A page without a kernel, as files in a folder: an explorer of the gallery with some stored accounts."""

from pathlib import Path

from page_answers import random_settings

from every_byte.widget import pages
from every_byte.widget.gpus import for_a_page
from every_byte.widget.scripts import one_script
from tools.sequences.stored import stored_sequences
from utils.explorers.gallery import GALLERY

CSS = Path(pages.__file__).parent / "page" / "explorer.css"
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>An explorer</title><link rel="stylesheet" href="explorer.css"></head>
<body><main><h1>Above it</h1><div style="height: 1500px"></div><div data-explorer="{name}"><p>a table</p></div></main>
<script src="explorers.js"></script><script src="{name}.js"></script></body></html>
"""


def write(folder: Path, name: str, *, n_stored: int) -> tuple:
    """The page's address, its explorer, and the settings stored with it: as many as asked, spread over all.

    Where the page takes accounts itself, none is stored: then they are the first setting and others, drawn. The
    explorer answers each setting once, and then as it did.
    """
    with for_a_page():
        explorer = GALLERY[name].make()
    answer_at, answers = explorer.answer_at, {}

    def remembered(settings: dict) -> dict:
        key = pages.key_of(explorer, settings)
        if key not in answers:
            answers[key] = answer_at(settings)
        return answers[key]

    explorer.answer_at = remembered
    sequences = stored_sequences(name)
    if sequences:
        start = {symbol: control.default for symbol, control in explorer.controls.items()}
        settings = [start, *random_settings(explorer, n_stored - 1, seed=3)]
    else:
        settings = list(GALLERY[name].settings(explorer))
    chosen = settings[:: max(1, len(settings) // n_stored)][:n_stored]
    script = pages.script_of(name, explorer, () if sequences else chosen, sequences)
    (folder / "explorers.js").write_text(one_script(), encoding="utf-8")
    (folder / f"{name}.js").write_text(script, encoding="utf-8")
    (folder / "explorer.css").write_text(CSS.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "index.html").write_text(PAGE.format(name=name), encoding="utf-8")
    return (folder / "index.html").as_uri(), explorer, chosen

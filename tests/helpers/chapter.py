"""A chapter's explorer outside Jupyter: what the page ought to show, computed in a process of its own."""

import contextlib
import random
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import nbformat
from kernel_explorer import item_within

from every_byte.failures import sentence
from every_byte.widget.stages import terms_by_stage

Row = tuple[str, int, int | None]  # term, predicted bytes, simulated bytes (None: no account)


_of_this_process: dict = {}


class ChapterInPython:
    """The explorer that a notebook's code cells make, in a process of its own: its GPUs stay out of the test's."""

    def __init__(self, notebook: Path):
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=_start, initargs=(notebook,))

    def __enter__(self) -> "ChapterInPython":
        return self

    def __exit__(self, *exc_info) -> None:
        self._pool.shutdown()

    def expected(self, settings: list[dict]) -> list[tuple[list[Row], str]]:
        """For each setting (as the page names it): the terms of each stage in order, and the error's sentence or ""."""
        return list(self._pool.map(_rows, settings))

    def random_settings(self, n: int, seed: int) -> list[dict]:
        """Settings as the page names them, drawn from each control's own range or options."""
        return self._pool.submit(_random_settings, n, seed).result()


def _start(notebook: Path) -> None:
    _of_this_process["explorer"] = _explorer(notebook)


def _explorer(notebook: Path):
    """Runs the chapter's code cells up to the one that makes `explorer`."""
    names = {"__name__": "chapter"}
    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.cell_type == "code" and "explorer" not in names:
            may_fail = "raises-exception" in cell.metadata.get("tags", [])
            with contextlib.suppress(Exception) if may_fail else contextlib.nullcontext():
                exec(cell.source, names)
    return names["explorer"]


def _rows(of_page: dict) -> tuple[list[Row], str]:
    explorer = _of_this_process["explorer"]
    setting = {symbol: explorer.controls[symbol].from_page(item) for symbol, item in of_page.items()}
    predicted = terms_by_stage(explorer.predict(setting))
    try:
        accounted = terms_by_stage(explorer.measure(setting).terms)
    except Exception as error:
        accounted, said = None, sentence(error)
    else:
        said = ""
    rows = [
        (name, n_bytes, accounted[stage].get(name, 0) if accounted else None)
        for stage, terms in predicted.items()
        for name, n_bytes in terms.items()
    ]
    return rows, said


def _random_settings(n: int, seed: int) -> list[dict]:
    draw = random.Random(seed)
    specs = [control.spec() for control in _of_this_process["explorer"].controls.values()]
    return [{spec["symbol"]: item_within(spec, draw) for spec in specs} for _ in range(n)]

"""Snapshots of a simulated GPU that a program dumps: they do not take the place of a file that was there before it."""

import os
from pathlib import Path
from typing import Any

import torch

from every_byte.gpu.dispatch.places import line_of_the_program
from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.replacing import Function, Undo, replaced

from .kept import WRITTEN
from .naming import simulated_cuda

_SIMULATED = ".simulated"


def leave_snapshots() -> Undo:
    """Let `torch.cuda.memory._dump_snapshot` write beside a file that was there. Returns what undoes it."""
    return replaced(torch.cuda.memory, "_dump_snapshot", _dumping)


def _dumping(original: Function) -> Function:
    def dump(filename: object = "dump_snapshot.pickle", *args: Any, **kwargs: Any) -> None:
        if standing_for_cuda() is not None and isinstance(filename, (str, bytes, os.PathLike)):
            filename = _free(Path(os.fsdecode(filename)))
        original(filename, *args, **kwargs)

    return dump


def _free(path: Path) -> Path:
    """The file itself; beside one that may be of a real GPU, as "a.pickle", one of another name, "a.simulated.pickle".

    What has such a name already is of an earlier run.
    """
    if path.stem.endswith(_SIMULATED):
        WRITTEN.add(os.path.realpath(path))
        return path
    place = os.path.realpath(path)
    if place in WRITTEN or not os.path.isfile(place):
        return path
    beside = path.with_name(path.stem + _SIMULATED + path.suffix)
    WRITTEN.add(os.path.realpath(beside))
    _note(place, path.name, beside)
    return beside


def _note(place: str, name: str, beside: Path) -> None:
    """Keep for the report what was left as it was, and warn the first time."""
    noted = simulated_cuda().memory.trace.notes.snapshots_beside
    if place not in noted:
        text = f"{name} was there and stays as it was: what is dumped here is of a simulated GPU, and goes to "
        simulated_cuda().tell(f"{text}{beside.name}.", *line_of_the_program()[:2])
    noted[place] = os.path.realpath(beside)

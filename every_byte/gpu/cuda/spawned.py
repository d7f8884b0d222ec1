"""Processes that a program spawns: each begins anew, and finds "cuda" as its parent does, on a GPU of its own."""

import base64
import multiprocessing.util
import pickle
from collections import ChainMap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.replacing import Function, Undo, replaced

from .naming import as_cuda

_ROOT = str(Path(__file__).resolve().parents[3])
_STARTS = ("from multiprocessing.spawn import ", "from multiprocessing.forkserver import ")
_OPENING = "import sys; sys.path.append({root!r}); from every_byte.gpu.opened import open_as; open_as({told!r}); "


def open_in_spawned() -> Undo:
    """Let processes that `multiprocessing` starts anew open such a GPU before they import the program.

    What they allocate is theirs, and no report counts it. Returns what undoes it.
    Source: spawnv_passfds in Python's multiprocessing/util.py, by which spawn and forkserver start theirs.
    """

    def starting(original: Function) -> Function:
        def spawnv_passfds(path: bytes, args: Sequence[Any], passfds: Sequence[int]) -> Any:
            return original(path, _opening(list(args)), passfds)

        return spawnv_passfds

    return replaced(multiprocessing.util, "spawnv_passfds", starting)


def _opening(args: list[Any]) -> list[Any]:
    """The command of a process, with what opens the GPU in front of its own; other commands as they are."""
    mode = standing_for_cuda()
    at = args.index("-c") + 1 if "-c" in args else 0
    if mode is None or not at or not str(args[at]).startswith(_STARTS):
        return args
    memory, place = mode.memory, as_cuda()
    read = place.environment
    variables = None if read is None else dict(read.maps[0] if isinstance(read, ChainMap) else read)
    opened_as = memory.spec, memory.settings, place.index, place.n_devices, variables
    text = base64.b85encode(pickle.dumps(opened_as)).decode()
    return [*args[:at], _OPENING.format(root=_ROOT, told=text) + args[at], *args[at + 1 :]]

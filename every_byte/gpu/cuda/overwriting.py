"""Checkpoints that a program replaces or removes by Python's own means: what was there before it began is kept.

`torch.save` and safetensors are dealt with where they write (kept.py). A file that is opened to be written anew, takes
another's place or goes is one of weights by its name: what it would hold on a card has no values here.
"""

import builtins
import io
import os
import shutil
from pathlib import PurePath
from typing import Any

from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.replacing import Function, Undo, all_of, replaced

from .kept import WRITTEN, keep
from .naming import simulated_cuda

_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
OF_WEIGHTS = frozenset(
    ".pt .pth .ckpt .bin .safetensors .pkl .pickle .npy .npz .h5 .tar .model .msgpack .joblib".split()
)


def keep_what_was_there() -> Undo:
    """Have `open`, `os.replace`, `os.remove` and `shutil.rmtree` keep such files. Returns what undoes it."""
    return all_of(
        [
            *(replaced(owner, "open", _opening) for owner in (builtins, io)),
            *(replaced(os, name, _taking_the_place) for name in ("replace", "rename")),
            *(replaced(os, name, _removing) for name in ("remove", "unlink")),
            replaced(shutil, "rmtree", _removing_a_folder),
            WRITTEN.clear,
        ]
    )


def _is_at_risk(place: str) -> bool:
    """Whether a file of weights lies there that this process has not written."""
    return PurePath(place).suffix in OF_WEIGHTS and place not in WRITTEN and os.path.isfile(place)


def _place_of(path: object) -> str | None:
    """Where a path leads, while "cuda" is a simulated GPU; None for a file that is open already."""
    if standing_for_cuda() is None or not isinstance(path, (str, bytes, os.PathLike)):
        return None
    return os.path.realpath(os.fsdecode(path))


def _opening(original: Function) -> Function:
    def opened(file: object, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        place = _place_of(file) if isinstance(mode, str) and "w" in mode else None
        if place is not None and _is_at_risk(place):
            keep(place)
        stream = original(file, mode, *args, **kwargs)
        if place is not None:
            WRITTEN.add(place)
        return stream

    return opened


def _taking_the_place(original: Function) -> Function:
    def take_the_place(src: _Path, dst: _Path, **folders: Any) -> None:
        here, there = (None, None) if folders else (_place_of(src), _place_of(dst))
        if here is None or there is None:
            original(src, dst, **folders)
            return
        is_moved = here != there and os.path.exists(here)
        if is_moved and (_is_at_risk(there) or _gets_zeros(here, there)):
            keep(there)
        original(src, dst, **folders)
        if here in WRITTEN:
            WRITTEN.add(there)

    return take_the_place


def _gets_zeros(here: str, there: str) -> bool:
    """Whether weights without values take the place of a file, whatever its name."""
    of_zeros = simulated_cuda().memory.trace.notes.files_of_zeros
    return here in of_zeros and there not in WRITTEN and os.path.isfile(there)


def _removing(original: Function) -> Function:
    def remove(path: _Path, **folder: Any) -> None:
        place = None if folder else _place_of(path)
        if place is not None and not os.path.islink(path) and _is_at_risk(place):
            keep(place)
        else:
            original(path, **folder)

    return remove


def _removing_a_folder(original: Function) -> Function:
    def rmtree(path: _Path, *args: Any, **kwargs: Any) -> None:
        place = _place_of(path)
        if place is not None and not os.path.islink(path) and _holds_what_is_at_risk(place):
            keep(place)
        else:
            original(path, *args, **kwargs)

    return rmtree


def _holds_what_is_at_risk(folder: str) -> bool:
    return any(_is_at_risk(os.path.join(inside, name)) for inside, _, names in os.walk(folder) for name in names)

"""Checkpoints that a program replaces or removes by Python's own means: what was there before it began is kept.

`torch.save` and safetensors are dealt with where they write (kept.py). A file that is opened to be written anew, takes
another's place or goes is one of weights by its name: what it would hold on a card has no values here.
"""

import builtins
import io
import os
import shutil
from pathlib import PurePath

from every_byte.gpu.memory.attachment import standing_for_cuda
from every_byte.gpu.patches.replacing import all_of, replaced

from .kept import WRITTEN, keep

OF_WEIGHTS = frozenset(
    ".pt .pth .ckpt .bin .safetensors .pkl .pickle .npy .npz .h5 .tar .model .msgpack .joblib".split()
)


def keep_what_was_there():
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


def _place_of(path) -> str | None:
    """Where a path leads, while "cuda" is a simulated GPU; None for a file that is open already."""
    if standing_for_cuda() is None or not isinstance(path, (str, bytes, os.PathLike)):
        return None
    return os.path.realpath(os.fsdecode(path))


def _opening(original):
    def opened(file, mode="r", *args, **kwargs):
        place = _place_of(file) if isinstance(mode, str) and "w" in mode else None
        if place is not None and _is_at_risk(place):
            keep(place)
        found = original(file, mode, *args, **kwargs)
        if place is not None:
            WRITTEN.add(place)
        return found

    return opened


def _taking_the_place(original):
    def take_the_place(src, dst, **folders):
        here, there = (None, None) if folders else (_place_of(src), _place_of(dst))
        is_moved = there is not None and here != there and os.path.exists(here)
        if is_moved and (_is_at_risk(there) or _gets_zeros(here, there)):
            keep(there)
        original(src, dst, **folders)
        if here in WRITTEN:
            WRITTEN.add(there)

    return take_the_place


def _gets_zeros(here: str, there: str) -> bool:
    """Whether weights without values take the place of a file, whatever its name."""
    return here in standing_for_cuda().memory.trace.files_of_zeros and there not in WRITTEN and os.path.isfile(there)


def _removing(original):
    def remove(path, **folder):
        place = None if folder else _place_of(path)
        if place is not None and not os.path.islink(path) and _is_at_risk(place):
            keep(place)
        else:
            original(path, **folder)

    return remove


def _removing_a_folder(original):
    def rmtree(path, *args, **kwargs):
        place = _place_of(path)
        if place is not None and not os.path.islink(path) and _holds_what_is_at_risk(place):
            keep(place)
        else:
            original(path, *args, **kwargs)

    return rmtree


def _holds_what_is_at_risk(folder: str) -> bool:
    return any(_is_at_risk(os.path.join(inside, name)) for inside, _, names in os.walk(folder) for name in names)

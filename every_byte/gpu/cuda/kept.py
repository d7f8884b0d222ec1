"""Files that a program saves over: weights without values do not take the place of a checkpoint that was there."""

import os
from collections.abc import Callable
from itertools import count

from every_byte.gpu.dispatch.places import line_of_the_program

from .naming import simulated_cuda
from .storages import saving

_KEPT, _NEW = ".kept", ".new"
_replace = os.replace
WRITTEN: set[str] = set()
"""What this process has written while "cuda" was a simulated GPU: that it may write again."""


def saved_over(path: str | os.PathLike[str], save: Callable[[str | os.PathLike[str]], object]) -> None:
    """Let `save` write a file of another name, which then takes the place of this one, if there is one.

    A program may still hold tensors that are mapped from what was there: they keep it. What has holes, and replaces a
    file that has none, leaves that one beside it, as "model.pt.kept".
    """
    place, saving.left_hole = os.path.realpath(path), False
    if not os.path.isfile(place):
        WRITTEN.add(place)  # `save` may write it in two parts
        save(path)
    else:
        try:
            save(place + _NEW)
            if saving.left_hole and place not in WRITTEN:
                keep(place)
            _replace(place + _NEW, place)
        finally:
            if os.path.exists(place + _NEW):
                os.remove(place + _NEW)
    WRITTEN.add(place)
    if saving.left_hole:
        simulated_cuda().memory.trace.notes.files_of_zeros.setdefault(place)


def keep(place: str) -> None:
    """Leave a file or folder that was there beside the one to come, "model.pt" as "model.pt.kept", and tell of it."""
    if os.path.isfile(place) and _has_holes(place):
        return
    names = (place + _KEPT + (str(n) if n > 1 else "") for n in count(1))
    kept = next(name for name in names if not os.path.exists(name))
    _replace(place, kept)
    old, new = os.path.basename(kept), os.path.basename(place)
    text = f"weights on a simulated GPU have no values: what was there as {new} is now {old}."
    simulated_cuda().tell(text, *line_of_the_program()[:2])


def _has_holes(place: str) -> bool:
    """Whether it is of an earlier run on a simulated GPU; no file is where the system does not tell of holes."""
    if not hasattr(os, "SEEK_HOLE"):
        return False
    file = os.open(place, os.O_RDONLY)
    try:
        return os.lseek(file, 0, os.SEEK_HOLE) < os.fstat(file).st_size
    finally:
        os.close(file)

"""Files that a program saves over: weights without values do not take the place of a checkpoint that was there."""

import os
from collections.abc import Callable
from itertools import count

from every_byte.gpu.dispatch.places import line_of_the_program
from every_byte.gpu.memory.attachment import standing_for_cuda

from .storages import saving

_KEPT, _NEW = ".kept", ".new"
_SECTOR_BYTES = 512  # of which a file's `st_blocks` tells how many it takes
_with_holes: set[tuple[int, int]] = set()
"""The files with holes that this process has written, as they were then: these it may write again."""


def saved_over(path: str | os.PathLike, save: Callable[[str | os.PathLike], None]) -> None:
    """Let `save` write a file of another name, which then takes the place of this one, if there is one.

    A program may still hold tensors that are mapped from what was there: they keep it. What has holes, and replaces a
    file that has none, leaves that one beside it, as "model.pt.kept".
    """
    place, saving.left_hole = os.path.realpath(path), False
    if not os.path.isfile(place):
        save(path)
    else:
        try:
            save(place + _NEW)
            if saving.left_hole and _identity(place) not in _with_holes:
                _keep(place)
            os.replace(place + _NEW, place)
        finally:
            if os.path.exists(place + _NEW):
                os.remove(place + _NEW)
    if saving.left_hole:
        _with_holes.add(_identity(place))


def _identity(place: str) -> tuple[int, int]:
    about = os.stat(place)
    return about.st_ino, about.st_mtime_ns


def _keep(place: str) -> None:
    about = os.stat(place)
    if getattr(about, "st_blocks", about.st_size) * _SECTOR_BYTES < about.st_size / 2:
        return  # it has holes itself, of an earlier run
    names = (place + _KEPT + (str(n) if n > 1 else "") for n in count(1))
    kept = next(name for name in names if not os.path.exists(name))
    os.replace(place, kept)
    old, new = os.path.basename(kept), os.path.basename(place)
    said = (
        f"weights on a simulated GPU have no values: {new} is written with zeros for them; what was there is now {old}."
    )
    standing_for_cuda().tell(said, *line_of_the_program()[:2])

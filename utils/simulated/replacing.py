"""Puts functions in the places of PyTorch's for as long as somebody needs them, and PyTorch's back."""

import threading
from contextlib import ExitStack
from functools import partial, wraps


def replaced(owner, name: str, make):
    """Put `make(original)` in the place of `owner.name`; returns what puts the original back."""
    original, inherited = getattr(owner, name), name not in vars(owner)
    made = make(original)
    setattr(owner, name, wraps(original)(made) if callable(made) else made)
    return partial(delattr, owner, name) if inherited else partial(setattr, owner, name, original)


def all_of(undoings: list):
    """What undoes several things, the last one first."""

    def undo() -> None:
        for one in reversed(undoings):
            one()

    return undo


class Changes:
    """Things that are changed in PyTorch for the whole process: made by the first who opens it, undone by the last.

    Each change, when it is called, returns what undoes it.
    """

    def __init__(self, changes: list) -> None:
        self.changes = changes
        self._lock = threading.Lock()
        self._users = 0
        self._undo = ExitStack()

    def add(self, change) -> None:
        """Also make this change: at once, too, where it is open."""
        with self._lock:
            self.changes.append(change)
            if self._users:
                self._undo.callback(change())

    def open(self) -> None:
        with self._lock:
            if self._users == 0:
                with ExitStack() as undo:  # undoes what is changed so far if a change fails
                    for change in self.changes:
                        undo.callback(change())
                    self._undo = undo.pop_all()
            self._users += 1

    def close(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._undo.close()

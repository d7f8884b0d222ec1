"""Puts functions in the places of PyTorch's for as long as somebody needs them, and PyTorch's back."""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial, wraps
from typing import Any, TypeAlias

import torch

Function: TypeAlias = Callable[..., Any]
"""A function of PyTorch's, or one in its place, which passes on what it is called with."""

Maker: TypeAlias = Callable[[Any], object]
"""What makes of that which stands in a place what is to stand there."""

Undo: TypeAlias = Callable[[], object]
"""What undoes a change."""

Change: TypeAlias = Callable[[], Undo]
"""A change, which returns what undoes it."""


def replaced(owner: object, name: str, make: Maker) -> Undo:
    """Put `make(what stood there)` in the place of `owner.name`; returns what takes it away again.

    Several may stand in one place, and go in any order: `make` is called anew when one below it goes.
    """
    with _lock:
        place = _places.get((id(owner), name)) or _places.setdefault((id(owner), name), _Place(owner, name))
        place.makers.append(make)
        place.put()
    return partial(place.take_away, make)


def present(owner: object, name: str, make: Maker) -> Undo:
    """As `replaced`, also where nothing stands: a build of PyTorch without CUDA lacks what only that has.

    What is made of nothing is made of a function that says so.
    """
    if not hasattr(owner, name):
        setattr(owner, name, _Absent(name))
    return replaced(owner, name, make)


class _Absent:
    """In the place of what this build of PyTorch lacks."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise AssertionError(f"Torch not compiled with CUDA enabled: {self.name} is missing.")


class _Place:
    """One attribute: PyTorch's own, and what is made of it, in the order in which it came.

    Where `torch.jit.script` knows PyTorch's own as an operator, it knows what stands there as the same.
    """

    def __init__(self, owner: object, name: str) -> None:
        self.owner, self.name = owner, name
        self.is_inherited = name not in vars(owner)
        self.original = getattr(owner, name) if self.is_inherited else vars(owner)[name]
        self.makers: list[Maker] = []
        self._operators: dict[int, str] = torch.jit._builtins._get_builtin_table()  # by the addresses of functions
        self._operator = self._operators.get(id(self.original))
        self._known: object = None

    def put(self) -> None:
        made: Any = self.original
        for make in self.makers:
            below, made = made, make(made)
            made = wraps(below)(made) if _is_made_function(made, below) else made
        setattr(self.owner, self.name, made)
        self._tell_scripts(made)

    def _tell_scripts(self, made: object) -> None:
        if self._operator is not None:
            self._operators.pop(id(self._known), None)
            self._known = made  # as long as its address stands in the table
            self._operators[id(made)] = self._operator

    @property
    def is_pytorchs(self) -> bool:
        """Whether this build of PyTorch has something in this place."""
        return not isinstance(self.original, _Absent)

    def put_original(self) -> Undo:
        """Put PyTorch's own in its place for a while, whatever is made of it; returns what ends that."""
        made = vars(self.owner)[self.name]
        if self.is_inherited:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.original)
        return partial(setattr, self.owner, self.name, made)

    def take_away(self, make: Maker) -> None:
        with _lock:
            self.makers.remove(make)
            if self.makers:
                return self.put()
            self._tell_scripts(self.original)
            del _places[id(self.owner), self.name]
            if self.is_inherited or not self.is_pytorchs:
                delattr(self.owner, self.name)
            else:
                setattr(self.owner, self.name, self.original)


def _is_made_function(made: object, below: object) -> bool:
    """Whether it goes by the name of what it stands for: a function does, a class or an object has a name already."""
    return (
        callable(made) and callable(below) and not isinstance(made, (type, staticmethod)) and hasattr(made, "__dict__")
    )


_places: dict[tuple[int, str], _Place] = {}
_lock = threading.RLock()


def places() -> list[_Place]:
    """All places where something stands that is not PyTorch's."""
    with _lock:
        return list(_places.values())


def all_of(undoings: Sequence[Undo]) -> Undo:
    """What undoes several things, the last one first."""

    def undo() -> None:
        for undo_one in reversed(undoings):
            undo_one()

    return undo


class Changes:
    """Things that are changed in PyTorch for the whole process: made by the first who opens it, undone by the last.

    Each change, when it is called, returns what undoes it.
    """

    def __init__(self, changes: list[Change]) -> None:
        self.changes = changes
        self._lock = threading.Lock()
        self._users = 0
        self._undo = ExitStack()

    def add(self, change: Change) -> None:
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

"""Changes in modules that a program may import later: made as soon as they are there."""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeAlias

from .replacing import Undo, all_of

ModuleChange: TypeAlias = Callable[[Any], Undo]
"""A change in a module, which returns what undoes it."""


def once_imported(changes: dict[str, ModuleChange]) -> Undo:
    """Make each change, which gets the module of that name and returns what undoes it, when the module is there.

    Returns what undoes them.
    """
    undoings = [change(sys.modules[name]) for name, change in changes.items() if name in sys.modules]
    finder = _Finder(changes, undoings)
    sys.meta_path.insert(0, finder)
    return all_of([lambda: sys.meta_path.remove(finder), lambda: all_of(undoings)()])


class _Finder(MetaPathFinder):
    """Finds nothing itself; sees to the modules once others have loaded them."""

    def __init__(self, changes: dict[str, ModuleChange], undoings: list[Undo]) -> None:
        self._changes, self._undoings = changes, undoings

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give, with a loader that makes the change."""
        if name not in self._changes:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in others if hasattr(finder, "find_spec"))
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._changes[name], self._undoings)
        return spec


class _Loader(Loader):
    """Loads as the module's own loader does, and then makes the change."""

    def __init__(self, loader: Loader, change: ModuleChange, undoings: list[Undo]) -> None:
        self._loader, self._change, self._undoings = loader, change, undoings

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the module's own loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As the module's own loader, and the change."""
        self._loader.exec_module(module)
        self._undoings.append(self._change(module))

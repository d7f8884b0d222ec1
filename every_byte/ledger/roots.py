"""The outermost modules of a program, by number, and paths of modules that know in which of them they are."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary, ref

from torch import nn

_WRAPPERS = {
    "OptimizedModule": "_orig_mod", "CheckpointWrapper": "_checkpoint_wrapped_module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module", "DistributedDataParallel": "module", "DataParallel": "module",
}  # fmt: skip
"""Classes of modules that stand for another one, by name, and what they call it: who sees them means the other."""


class ModulePath(str):
    """A module's path within the outermost one, and, beside what it is as text, that one's number; 0 is none.

    A run of several models has equal paths of different ones. All that is recorded goes by the text, as ever; an
    account of such a run tells them apart.
    """

    root: int = 0

    def __new__(cls, path: str, root: int = 0) -> "ModulePath":
        made = super().__new__(cls, path)
        made.root = root
        return made


def root_of(path: str) -> int:
    """The number of the outermost module that a path is of; 0 where that is not known."""
    return getattr(path, "root", 0)


@dataclass
class Root:
    """What is remembered of an outermost module: its class's name, and whether it has any part, parameter or buffer.

    Of a wrapper `name` is that of what it wraps, at the path `wraps`. `layers` has the classes of numbered parts, by
    their numbers in `stack`, where these are the first parts that there is more than one of, from outside. `within` is
    the number of a module that this one is a part of, and the path there, and `variable` holds it in the program; both
    as far as that is known.
    """

    name: str
    has_something: bool
    wraps: str = ""
    stack: str = ""
    layers: dict[str, str] = field(default_factory=dict)
    within: tuple[int, str] | None = None
    variable: str = ""

    @classmethod
    def of(cls, module: nn.Module) -> "Root":
        """What is remembered of this one."""
        inner, path = module, []
        while (name := _WRAPPERS.get(type(inner).__name__)) and isinstance(getattr(inner, name, None), nn.Module):
            inner = getattr(inner, name)
            path.append(name)
        return cls(type(inner).__name__, _has_something(module), plain_path(".".join(path)), *_layers_of(module))


class Roots:
    """The outermost modules that were called, or that own a tensor, numbered from 1 as they were met.

    Those of a class that have nothing, as a loss has, are one. Nothing here keeps a module.
    """

    def __init__(self) -> None:
        self.found: list[Root] = []
        self._numbers: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()
        self._variables: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()
        self._alive: dict[int, ref[nn.Module]] = {}
        self._empty: dict[type, int] = {}
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"found": self.found}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Roots.__init__(self)
        self.found = state["found"]

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, number: int) -> Root:
        return self.found[number - 1]

    def number_of(self, module: nn.Module) -> int:
        """The number of an outermost module; it gets the next one if it is met for the first time."""
        return self._known(module) or self._note(module)

    def _known(self, module: nn.Module) -> int:
        """The number that it has already; 0 if none."""
        return self._numbers.get(module) or (0 if _has_something(module) else self._empty.get(type(module), 0))

    def note_variable(self, module: nn.Module, name: str) -> None:
        """Note by which variable the program holds a module, the first that was seen; be it an outermost one or not."""
        if self._variables.setdefault(module, name) == name and (number := self._numbers.get(module)):
            self[number].variable = name

    def alive(self) -> Iterator[tuple[int, nn.Module]]:
        """Those that are still there, with their numbers."""
        for number, reference in list(self._alive.items()):
            if (module := reference()) is not None:
                yield number, module

    def _note(self, module: nn.Module) -> int:
        """The next number, but that of another thread, if one has met the same module meanwhile."""
        root = Root.of(module)
        root.variable = self._variables.get(module, "")
        with self._lock:
            if known := self._known(module):
                return known
            self.found.append(root)
            number = len(self.found)
            if root.has_something:
                self._alive[number] = ref(module)
                self._numbers[module] = number
            else:
                self._empty[type(module)] = number
        return number


def _has_something(module: nn.Module) -> bool:
    state = vars(module)
    members = (state.get(name, {}).values() for name in ("_modules", "_parameters", "_buffers"))
    return any(member is not None for each in members for member in each)


def _parts_of(module: nn.Module) -> dict[str, nn.Module]:
    return {name: part for name, part in vars(module).get("_modules", {}).items() if part is not None}


def _layers_of(module: nn.Module) -> tuple[str, dict[str, str]]:
    """The numbered parts of a module, as `Root` has them; alike ones that have parts themselves are rather one kind."""
    path, parts = [], _parts_of(module)
    while len(parts) == 1:
        [(name, part)] = parts.items()
        if not (within := _parts_of(part)) and name.isdecimal():
            break
        path.append(name)
        parts = within
    kinds = {name: type(part).__name__ for name, part in parts.items()}
    are_blocks = len(set(kinds.values())) == 1 and any(map(_parts_of, parts.values()))
    if are_blocks or not all(name.isdecimal() for name in kinds):
        return "", {}
    return plain_path(".".join(path)), kinds


_INNER = frozenset(("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"))


def plain_path(path: str) -> str:
    """A module's path without the names under which `torch.compile`, checkpoints and FSDP keep what they wrap."""
    if not any(name in path for name in _INNER):
        return path
    return ".".join(name for name in path.split(".") if name not in _INNER)

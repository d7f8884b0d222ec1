"""What modules are called in a report: by the model that they are of, where a run has several, and by their class."""

import sys
from collections import Counter
from collections.abc import Mapping
from inspect import CO_OPTIMIZED
from types import FrameType

from torch import nn

from every_byte.gpu.memory.contents import objects_of, outermost
from every_byte.ledger.roots import Roots, plain_path, root_of
from every_byte.ledger.trace import Trace

MOST_ROOTS = 32
"""Of more models nobody looks any more which of them are parts of others."""


class Names:
    """Says what a module is called, by its path.

    Of one model that is its path within. Of several it begins with the model's own name, which is that of its class, or
    with the path to it, where all are parts of one module: "Generator.main", "generator.main". Models of one class have
    the names of the program's variables, or numbers: "Net (teacher)", "Net (2)". Where a model is a stack of numbered
    layers, these have their class as well: "main.0 Conv2d".
    """

    def __init__(self, roots: Roots, used: set[int]) -> None:
        self._roots = roots
        models = sorted(number for number in used if roots[number].has_something)
        self._places = {number: _place(roots, number) for number in models}
        tops = sorted({top for top, _ in self._places.values()})
        self._titles = _titles(roots, [*tops, *sorted(used - set(models))]) if len(tops) > 1 else {}
        self._known: dict[tuple[int, str], str] = {}
        self._is_plain = len(models) < 2
        stacks = [(number, roots[number].stack, roots[number].layers) for number in models if roots[number].layers]
        self._layers = {self._full(number, stack): layers for number, stack, layers in stacks}

    @property
    def n_models(self) -> int:
        """How many models the run has."""
        return len(self._places)

    @property
    def say_more(self) -> bool:
        """Whether any module is called otherwise than by its path."""
        return not self._is_plain or bool(self._layers)

    def __call__(self, path: str) -> str:
        key = root_of(path), str(path)
        if key not in self._known:
            self._known[key] = self._with_classes(self._full(*key))
        return self._known[key]

    def _full(self, number: int, path: str) -> str:
        if self._is_plain or number not in self._places:
            return _joined(self._titles.get(number, ""), path)
        top, inner = self._places[number]
        inside = _joined(inner, path)
        if not self._titles:
            return inside
        wraps = self._roots[top].wraps
        return _joined(self._titles[top], f"{inside}.".removeprefix(f"{wraps}.").rstrip(".") if wraps else inside)

    def _with_classes(self, path: str) -> str:
        for stack, layers in self._layers.items():
            if path.startswith(f"{stack}.".lstrip(".")):
                number, *rest = path[len(stack) :].lstrip(".").split(".")
                if number in layers:
                    return ".".join(filter(None, [stack, f"{number} {layers[number]}", *rest]))
        return path


def _joined(*paths: str) -> str:
    return ".".join(filter(None, paths))


def _place(roots: Roots, number: int) -> tuple[int, str]:
    """The outermost module that one is a part of, itself if of none; and the path to it there."""
    path = ""
    while (within := roots[number].within) is not None:
        number, path = within[0], _joined(within[1], path)
    return number, path


def _titles(roots: Roots, numbers: list[int]) -> dict[int, str]:
    """The name of each: of several of one class by the variable that holds it, or else with a number behind it."""
    by_class: dict[str, list[int]] = {}
    for number in numbers:
        by_class.setdefault(roots[number].name, []).append(number)
    titles = {}
    for name, alike in by_class.items():
        taken = Counter(roots[number].variable for number in alike)
        for i, number in enumerate(alike, start=1):
            variable = roots[number].variable
            which = f" ({variable})" if taken[variable] == 1 and variable else f" ({i})" if i > 1 else ""
            titles[number] = name + (which if len(alike) > 1 else "")
    return titles


def names_of(trace: Trace) -> Names | None:
    """What the modules of a trace are called; None if that is their path."""
    owners, roots = trace.owners, trace.roots
    used = {root_of(event.module) for event in trace.events if event.action in ("alloc", "oom")}
    used |= {root_of(role.module) for roles in owners.roles.values() for role in roles}
    used |= {root_of(node.module) for node in owners.nodes}
    names = Names(roots, used - {0})
    return names if names.say_more else None


def look_for(roots: Roots) -> None:
    """Find out, of the outermost modules that are there, whose parts they are, and which variables hold them.

    Called within the program's own code, this sees the variables of all functions under way.

    Counts: modules alone: what an object of another kind holds is in none, nor what a list has, that names by number.
    """
    if 2 <= len(roots) <= MOST_ROOTS:
        _find_containers(roots)
        _find_variables(roots)


def _find_containers(roots: Roots) -> None:
    lost = {module: number for number, module in roots.alive() if roots[number].within is None}
    for container in outermost(objects_of(nn.Module)[0]):
        if type(container) is nn.ModuleList:
            continue
        for path, part in container.named_modules():
            if part is not container and part in lost:
                roots[lost.pop(part)].within = roots.number_of(container), plain_path(path)


def _find_variables(roots: Roots) -> None:
    """The program's own variables, those of its outermost function first, and what `self` holds there."""
    nameless = {id(module): number for number, module in roots.alive() if not roots[number].variable}
    for name, module in _variables():
        if id(module) in nameless and not name.startswith("_"):
            roots[nameless.pop(id(module))].variable = name


def _variables() -> list[tuple[str, nn.Module]]:
    found = _modules_in(getattr(sys.modules.get("__main__"), "__dict__", {}))
    frame, frames = sys._getframe(1), []
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _NOT_OF_THE_PROGRAM:
            frames.append(frame)
        frame = frame.f_back
    return found + [each for frame in reversed(frames) for each in _locals_of(frame)]


def _locals_of(frame: FrameType) -> list[tuple[str, nn.Module]]:
    """A function's variables. Up to Python 3.12 the frame would keep, with the answer, all that they hold now."""
    answer = frame.f_locals
    found = _modules_in(answer) + _modules_in(getattr(answer.get("self"), "__dict__", {}))
    if frame.f_code.co_flags & CO_OPTIMIZED and isinstance(answer, dict):
        answer.clear()
    return found


def _modules_in(scope: Mapping[str, object]) -> list[tuple[str, nn.Module]]:
    return [(name, value) for name, value in list(scope.items()) if issubclass(type(value), nn.Module)]


_NOT_OF_THE_PROGRAM = ("torch", __name__.partition(".")[0])

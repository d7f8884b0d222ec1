"""What modules are called in a report: by the model that they are of, where a run has several, and by their class."""

import linecache
import re
import sys
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
    """The name of each: of several of one class with the variable that holds it, or, if one has none, by number."""
    by_class: dict[str, list[int]] = {}
    for number in numbers:
        by_class.setdefault(roots[number].name, []).append(number)
    titles = {}
    for name, alike in by_class.items():
        variables = [roots[number].variable for number in alike]
        if not all(variables) or len(set(variables)) < len(variables):
            variables = ["", *range(2, len(alike) + 1)]
        for number, which in zip(alike, variables, strict=True):
            titles[number] = f"{name} ({which})" if which and len(alike) > 1 else name
    return titles


def names_of(trace: Trace) -> Names | None:
    """What the modules of a trace are called; None if that is their path."""
    owners, roots = trace.owners, trace.roots
    used = {root_of(event.module) for event in trace.events if event.action in ("alloc", "oom")}
    used |= {root_of(role.module) for roles in owners.roles.values() for role in roles}
    used |= {root_of(node.module) for node in owners.nodes if node.module is not None}
    names = Names(roots, used - {0})
    return names if names.say_more else None


def look_for(roots: Roots, called: nn.Module | None = None) -> None:
    """Find out, of the outermost modules that are there, whose parts they are, and what the program calls them.

    `called` is the one whose forward the program begins now.

    Counts: modules alone: what an object of another kind holds is in none, nor what a list has, that names by number.
    """
    if len(roots) > MOST_ROOTS:
        return
    for name, module in _global_variables():
        roots.note_variable(module, name)
    if called is not None and (name := _name_at_the_call()):
        roots.note_variable(called, name)
    if len(roots) > 1:
        _find_containers(roots)


def _find_containers(roots: Roots) -> None:
    lost = {module: number for number, module in roots.alive() if roots[number].within is None}
    for container in outermost(objects_of(nn.Module)[0]):
        if type(container) is nn.ModuleList:
            continue
        for path, part in container.named_modules():
            if part is not container and part in lost:
                roots[lost.pop(part)].within = roots.number_of(container), plain_path(path)


def _global_variables() -> list[tuple[str, nn.Module]]:
    """Those of the program's files that are under way.

    Counts: not a function's own: up to Python 3.12, to ask a frame for these keeps what they hold, as long as it runs.
    """
    scopes = [getattr(sys.modules.get("__main__"), "__dict__", {})]
    scopes += [frame.f_globals for frame in _frames() if _is_the_programs(frame)]
    each = {id(scope): scope for scope in scopes}.values()
    found = [(name, value) for scope in each for name, value in list(scope.items()) if not name.startswith("_")]
    return [(name, value) for name, value in found if issubclass(type(value), nn.Module)]


def _name_at_the_call() -> str:
    """What the program calls the module that it calls now, by its source: `netG(noise)`, `self.netG(noise)`."""
    frame = next((frame for frame in _frames() if frame.f_globals.get("__name__") not in _BETWEEN), None)
    if frame is None or not _is_the_programs(frame):
        return ""
    line, last_line, start, end = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    if line is None or line != last_line or start is None or end is None:
        return ""
    text = linecache.getline(frame.f_code.co_filename, line, frame.f_globals).encode()[start:end].decode()
    called, code = re.match(r"(?:\w+\.)*(\w+)\(", text), frame.f_code
    there = {*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars}  # the file may be another by now
    return called[1] if called and called[1] in there else ""


def _frames() -> list[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    found: list[FrameType] = []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


def _is_the_programs(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] not in ("torch", "runpy", _OURS)


_OURS = __name__.partition(".")[0]
_BETWEEN = (__name__, f"{_OURS}.step.training", "torch.nn.modules.module")
"""Modules of Python whose functions are under way between a call of a module and here."""

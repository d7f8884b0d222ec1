"""What compiled code allocates for: the operations that its next kernel fuses, and the module that called them.

Inductor writes above each kernel which operations it fuses, and which calls in the program they come from; Dynamo knows
of each call in which module it was.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from torch import nn

from every_byte.gpu.memory.storages import Memory
from every_byte.ledger.roots import ModulePath, root_of

_KERNEL = re.compile(r"Source Nodes: \[(?P<calls>.*)\], Original ATen: \[(?P<operators>.*)\]")
_EXTERN = re.compile(r"extern_kernels\.(?P<name>\w+)\(")
_CAST = "_to_copy"
_MOST_NAMED = 3
_MAKES = "empty_strided_cuda("
_VARIABLE = re.compile(r"^[LG]\['\w+'\]\.?")
_VIEWS = frozenset(
    f"aten.{name}"
    for name in ("alias", "detach", "expand", "permute", "reshape", "select", "slice", "split", "squeeze", "t",
                 "transpose", "unsqueeze", "view", "_unsafe_view")
)  # fmt: skip
_CALLS = "compile_wrapper"  # the function of PyTorch that calls what is compiled, or has it compiled


class _Kernel(NamedTuple):
    """What a kernel fuses, and the calls in the program that this comes from."""

    operators: str
    calls: tuple[str, ...]


class Calls(NamedTuple):
    """Of a graph of Dynamo's, by the name of each call the path of its module, below the one that was compiled."""

    modules: Mapping[str, str]

    @classmethod
    def of(cls, graph: Any) -> "Calls":
        stacks = ((node.name, node.meta.get("nn_module_stack")) for node in graph.graph.nodes)
        return cls({name: _VARIABLE.sub("", list(stack.values())[-1][0]) for name, stack in stacks if stack})


_compiling: list[Calls] = []
_of_file: dict[str, Calls] = {}


@contextmanager
def of_graph(calls: Calls | None) -> Iterator[None]:
    """The code that is made or found in this is that of a graph with these calls."""
    _compiling.append(calls or Calls({}))
    try:
        yield
    finally:
        _compiling.pop()


def now() -> Calls | None:
    """The calls of the graph that is being compiled."""
    return _compiling[-1] if _compiling else None


def note_file(path: str) -> None:
    """Note that this file has the code of the graph that is being compiled."""
    if _compiling:
        _of_file[path] = _compiling[-1]


def name_last(memory: Memory, number: int, caller: FrameType) -> None:
    """Say of allocation `number`, which `caller`, compiled code, has just made, for which operations and module it is.

    One of no bytes has no event.
    """
    path = caller.f_code.co_filename
    event = next((one for one in reversed(memory.trace.events) if one.action == "alloc"), None)
    kernel = _kernels(path).get(caller.f_lineno)
    if event is None or event.allocation != number or kernel is None:
        return
    event.operation = kernel.operators or event.operation
    modules = _of_file.get(path, Calls({})).modules
    known = [modules[call] for call in kernel.calls if call in modules]
    if known and (within := _compiled_module(memory, caller)) is not None:
        event.module = ModulePath(".".join(filter(None, (within, known[-1]))), root_of(within))


def _compiled_module(memory: Memory, frame: FrameType | None) -> str | None:
    """The path of the module whose call runs compiled code: none in backward, where nobody calls it."""
    while frame is not None and frame.f_code.co_name != _CALLS:
        frame = frame.f_back
    if frame is None:
        return None
    called = getattr(frame.f_locals.get("fn"), "__self__", None)
    return memory.labels.modules.path_of(called) if isinstance(called, nn.Module) else memory.labels.modules.current


@cache
def _kernels(path: str) -> dict[int, _Kernel]:
    """For each line of a file that allocates, from 1, the next kernel below it."""
    found: dict[int, _Kernel] = {}
    waiting: list[int] = []
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        if _MAKES in line:
            waiting.append(number)
        elif waiting and (comment := _KERNEL.search(line)):
            called = _EXTERN.search(lines[number]) if number < len(lines) else None
            operators = called["name"] if called else _fused(comment["operators"].split(", "))
            found |= dict.fromkeys(waiting, _Kernel(operators, tuple(comment["calls"].split(", "))))
            waiting = []
    return found


def _fused(operators: list[str]) -> str:
    """As "add + gelu", of what a kernel computes: without views, and without changes of type beside others."""
    names = dict.fromkeys(name.removeprefix("aten.") for name in operators if name and name not in _VIEWS)
    computed = [name for name in names if name != _CAST] or list(names)
    few, more = computed[:_MOST_NAMED], len(computed) - _MOST_NAMED
    return " + ".join(few) + (f" + {more} more" if more > 0 else "")

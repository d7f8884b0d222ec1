"""What compiled code allocates for: the operations that its next kernel fuses, and the module that called them.

Inductor writes above each kernel which operations it fuses. Here it also writes the module: each of a graph's nodes
knows in which it was called, in backward that of the forward's. A graph that comes out of a cache has all that with it.
"""

import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NamedTuple

import torch
from torch import nn

from every_byte.gpu.memory.records import RECORDS
from every_byte.gpu.memory.storages import Memory
from every_byte.gpu.patches.late import once_imported
from every_byte.gpu.patches.replacing import Undo, replaced
from every_byte.ledger.attribution import COMPILED
from every_byte.ledger.events import Event
from every_byte.ledger.roots import ModulePath, root_of

_KERNEL = re.compile(r"Original ATen: \[(?P<operators>.*?)\](?:, Module: ?(?P<module>\S*))?$")
_EXTERN = re.compile(r"extern_kernels\.(?P<name>\w+)\(")
_CAST = "_to_copy"
_MOST_NAMED = 3
_MAKES, _GETS = "empty_strided_cuda(", "assert_size_stride("
_VARIABLE = re.compile(r"^[LG]\['\w+'\]\.?")
_STACKS = ("nn_module_stack", "fwd_nn_module_stack")
_VIEWS = frozenset(
    f"aten.{name}"
    for name in ("alias", "detach", "expand", "permute", "reshape", "select", "slice", "split", "squeeze", "t",
                 "transpose", "unsqueeze", "view", "_unsafe_view")
)  # fmt: skip
_CALLS = "compile_wrapper"  # the function of PyTorch that calls what is compiled, or has it compiled


class _Kernel(NamedTuple):
    """What a kernel fuses, and in which module it is, below the one that was compiled; None where that is unknown."""

    operators: str
    module: str | None


# ------------------------------------------------------------------------------------------- when code is written


def write_modules() -> Undo:
    """Have Inductor write the module, too, above each kernel. Returns what undoes it."""

    def of(module: ModuleType) -> Undo:
        return replaced(module, "get_kernel_metadata", _with_module)

    return once_imported(dict.fromkeys(("torch._inductor.ir", "torch._inductor.codegen.triton"), of))


def _with_module(original: Callable[..., tuple[str, str]]) -> Callable[..., tuple[str, str]]:
    def get_kernel_metadata(schedule: Any, wrapper: Any) -> tuple[str, str]:
        from torch._inductor.utils import aggregate_origins

        comment, details = original(schedule, wrapper)
        path = _path_of(aggregate_origins(schedule))
        return comment if path is None else f"{comment}, Module: {path}", details

    return get_kernel_metadata


def _path_of(nodes: Any) -> str | None:
    """The module of the last of a graph's nodes that has one."""
    for node in sorted((node for node in nodes if node.op == "call_function"), reverse=True):
        if stack := next((stack for name in _STACKS if (stack := node.meta.get(name))), None):
            return _VARIABLE.sub("", list(stack.values())[-1][0])
    return None


# --------------------------------------------------------------------------------------------------- when it runs


def empty_strided(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """In the place of the compiled code's own: room for what its next kernel writes."""
    made = torch.empty_strided(size, stride, dtype=dtype, device="cuda")
    _name(made, sys._getframe(1))
    return made


def checking(original: Callable[..., None]) -> Callable[..., None]:
    """Compiled code asks so of what it was given, and of what an operator of PyTorch has just made for it."""

    def assert_size_stride(tensor: torch.Tensor, *args: Any) -> None:
        original(tensor, *args)
        _name(tensor, sys._getframe(1))

    return assert_size_stride


def _name(made: torch.Tensor, caller: FrameType) -> None:
    """Say for which operations and module a tensor is that `caller`, compiled code, has just got."""
    kernel = _kernels(caller.f_code.co_filename).get(caller.f_lineno)
    record = RECORDS.get(made.untyped_storage()._cdata) if kernel else None
    if kernel is None or record is None or (event := _last_of(record.memory, record.number)) is None:
        return
    record.memory.owners.computed.add(record.number)
    event.operation = kernel.operators or event.operation
    within = _compiled_module(record.memory, event, caller) if kernel.module is not None else None
    if within is not None:
        event.module = ModulePath(".".join(filter(None, (within, kernel.module))), root_of(within))


def _last_of(memory: Memory, number: int) -> Event | None:
    """The event of an allocation that is among the last; one of no bytes has none."""
    for event in reversed(memory.trace.events):
        if event.action == "alloc" and event.allocation <= number:
            return event if event.allocation == number else None
    return None


def _compiled_module(memory: Memory, event: Event, frame: FrameType | None) -> str | None:
    """The path of the module whose call runs compiled code; in backward, of the one whose forward ran it."""
    if event.node == COMPILED:
        return event.module
    while frame is not None and frame.f_code.co_name != _CALLS:
        frame = frame.f_back
    if frame is None:
        return None
    called = getattr(frame.f_locals.get("fn"), "__self__", None)
    return memory.labels.modules.path_of(called) if isinstance(called, nn.Module) else memory.labels.modules.current


@cache
def _kernels(path: str) -> dict[int, _Kernel]:
    """For each line of a file, from 1, that gets a tensor: the kernel below it that fills it, or the one that has."""
    found: dict[int, _Kernel] = {}
    waiting: list[int] = []
    kernel = _Kernel("", None)
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        if _MAKES in line:
            waiting.append(number)
        elif _GETS in line and "'torch.ops." in line:
            found[number] = _Kernel("", kernel.module)
        elif comment := _KERNEL.search(line):
            called = _EXTERN.search(lines[number]) if number < len(lines) else None
            operators = called["name"] if called else _fused(comment["operators"].split(", "))
            kernel = _Kernel(operators, comment["module"])
            found |= dict.fromkeys(waiting, kernel)
            waiting = []
    return found


def _fused(operators: list[str]) -> str:
    """As "add + gelu", of what a kernel computes: without views, and without changes of type beside others."""
    names = dict.fromkeys(name.removeprefix("aten.") for name in operators if name and name not in _VIEWS)
    computed = [name for name in names if name != _CAST] or list(names)
    few, more = computed[:_MOST_NAMED], len(computed) - _MOST_NAMED
    return " + ".join(few) + (f" + {more} more" if more > 0 else "")

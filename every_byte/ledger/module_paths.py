"""Which module is running, and which module's forward made a node of the autograd graph."""

import sys
import threading
from bisect import bisect_right
from types import FrameType
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from .deep_graphs import number_of
from .roots import ModulePath, Roots, plain_path, root_of


class _Thread(threading.local):
    """What one thread has seen.

    `running` holds, innermost last, (module, path, depth of its call, the graph task that called it or -1); `names` are
    those of its root; module `paths[i]` was the innermost from the autograd node numbered `starts[i]` on. It refers to
    each module weakly: Ctrl-C ends a forward without any hook, and the program may drop the model after that.
    """

    def __init__(self) -> None:
        self.running: list[tuple[ReferenceType[nn.Module], str, int, int]] = []
        self.names: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()
        self.starts: list[int] = []
        self.paths: list[str] = []


class ModulePaths:
    """While it is open, knows the path of the innermost running module, by the names that the root module gives.

    The root is the outermost module called: it is "" itself, its part `blocks[0].mlp` is "blocks.0.mlp". A module that
    the root does not know by name appears as `<ClassName>` below the one that calls it; one that several names point
    to has the first. What a checkpoint runs again in backward has the name it had in forward. Each path knows of which
    of the `roots` it is.

    Counts: modules run by calling them, on any thread; not `module.forward(...)` called directly, and nothing of what
            ran before it was opened. Of which module made a node it remembers the last `REMEMBERED` changes of module,
            at least; nodes from before have the path "".
    """

    REMEMBERED = 50_000

    def __init__(self) -> None:
        self.roots = Roots()
        self._thread = _Thread()
        self._remembered: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()  # a CUDA backward has its own thread
        self._handles: list[Any] = []

    def __enter__(self) -> "ModulePaths":
        if self._handles:
            raise RuntimeError("this ModulePaths is open already: close it first, or open a second one inside it.")
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(self, *exc_info: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._thread.running.clear()
        self._note_change()

    @property
    def current(self) -> str:
        """The path of the innermost module running on this thread; "" outside of all, and in the root itself."""
        running = self._thread.running
        return running[-1][1] if running else ""

    @property
    def depth(self) -> int:
        """How many modules are running on this thread, one inside the other."""
        return len(self._thread.running)

    @property
    def runs_again(self) -> bool:
        """Whether the innermost module running was called by the backward that is under way, as a checkpoint does."""
        running = self._thread.running
        return bool(running) and running[-1][3] == torch._C._current_graph_task_id() != -1

    def path_of(self, module: nn.Module) -> str:
        """The path of a module that has run, or is a part of one that has; that of the running one where it is none."""
        known = self._thread.names.get(module)
        return self.current if known is None else known

    def of_node(self, node: torch.autograd.graph.Node) -> str:
        """The path of the innermost module whose forward made `node`; "" for nodes made outside of all modules.

        Counts: nodes made on this thread while it was open. Autograd numbers the nodes of a thread in the order in
                which they are made, which is how it finds out.
        """
        return self.of_sequence_number(number_of(node))

    def of_sequence_number(self, number: int) -> str:
        """As `of_node`, for the node that autograd gave this number on this thread."""
        if number >= torch._C._autograd._get_sequence_nr():  # a gradient's accumulator, which has the largest number
            return ""
        position = bisect_right(self._thread.starts, number)
        return self._thread.paths[position - 1] if position else ""

    def _enter(self, module: nn.Module, _args: tuple[Any, ...]) -> None:
        if torch.compiler.is_compiling():  # hooks are compiled into a model's graph: these must leave nothing there
            return
        running, depth = self._thread.running, _call_depth()
        while running and running[-1][2] >= depth:  # its call is over: an interrupt left it without telling
            running.pop()
        running.append((ref(module), self._path_of(module, running), depth, torch._C._current_graph_task_id()))
        self._note_change()

    def _leave(self, module: nn.Module, _args: tuple[Any, ...], _output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        running = self._thread.running
        if running and running[-1][0]() is module:
            running.pop()
            self._note_change()

    def _path_of(self, module: nn.Module, running: list[Any]) -> str:
        if running:
            if (named := self._thread.names.get(module)) is not None:
                return named
            caller, unknown = running[-1][1], f"<{type(module).__name__}>"
            return ModulePath(f"{caller}.{unknown}" if caller else unknown, root_of(caller))
        if torch._C._current_graph_task_id() != -1:  # a backward runs it again
            self._thread.names = self._remembered
            return self._remembered.get(module, "")
        root = self.roots.number_of(module)
        paths = {part: ModulePath(plain_path(name), root) for name, part in module.named_modules()}
        self._thread.names = WeakKeyDictionary(paths)
        self._remembered.update(self._thread.names)
        return ModulePath("", root)

    def _note_change(self) -> None:
        thread, number = self._thread, torch._C._autograd._get_sequence_nr()
        if thread.starts and thread.starts[-1] == number:  # no node was made since the last change
            thread.paths[-1] = self.current
        else:
            thread.starts.append(number)
            thread.paths.append(self.current)
            if len(thread.starts) > 2 * self.REMEMBERED:
                del thread.starts[: self.REMEMBERED], thread.paths[: self.REMEMBERED]


def _call_depth() -> int:
    frame: FrameType | None = sys._getframe(1)
    depth = 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth

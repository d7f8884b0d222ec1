"""In which phase of training, and for which module, the memory of a GPU is used, a simulated or a live one."""

import sys
import threading
from types import CodeType, FrameType
from typing import Any

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle

from every_byte.ledger.call_stacks import CallStacks
from every_byte.ledger.module_paths import ModulePaths
from every_byte.ledger.source_lines import NO_STACK, CallStack
from every_byte.ledger.trace import Trace


class _Steps(threading.local):
    """The optimizer steps under way on this thread, innermost last: (graph task, number of modules running) of each."""

    def __init__(self) -> None:
        self.running: list[tuple[int, int]] = []
        self.caller: CodeType | None = None


class Labels:
    """Says, while it is open, which phase and which module what happens now belongs to.

    The phase is the one that the user set with `trace.in_phase`, or else that of the innermost of these: an
    optimizer's step ("step"), a backward pass ("backward"), a module's forward ("forward"); outside of them it is "".
    `stacks` says who calls, where lines are recorded.
    """

    def __init__(self, trace: Trace) -> None:
        self.modules = ModulePaths()
        self.stacks: CallStacks | None = None
        self._trace = trace
        self._steps = _Steps()
        self._handles: list[RemovableHandle] = []

    def open(self) -> None:
        self.modules.__enter__()
        self._handles = [
            register_optimizer_step_pre_hook(self._enter_step),
            register_optimizer_step_post_hook(self._leave_step),
        ]

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._steps.running.clear()
        self.modules.__exit__(None, None, None)

    def phase(self) -> str:
        """The phase of what happens now."""
        if self._trace.phase:
            return self._trace.phase
        task, steps = torch._C._current_graph_task_id(), self._steps.running
        if steps and not self.in_step():
            steps.clear()
        if steps and steps[-1] == (task, self.modules.depth):
            return "step"
        if task != -1:
            return "backward"
        if self.modules.depth:
            return "forward"
        return "step" if steps else ""

    def keep_stacks(self, is_on: bool = True) -> None:
        """Note who calls, from now on, or no more."""
        self.stacks = CallStacks() if is_on else None

    def stack(self) -> CallStack:
        """Who calls for what is allocated now."""
        return NO_STACK if self.stacks is None else self.stacks.now()

    def module_of(self, node: torch.autograd.graph.Node) -> str:
        """In backward: the path of the module that is run again, or else of the one whose forward made `node`."""
        return self.modules.current if self.modules.runs_again else self.modules.of_node(node)

    def _enter_step(self, _optimizer: Optimizer, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        if torch.compiler.is_compiling():  # a step on the CPU: hooks are compiled into it, and must leave nothing there
            return
        steps = self._steps
        steps.caller = sys._getframe(1).f_code
        steps.running.append((torch._C._current_graph_task_id(), self.modules.depth))

    def _leave_step(self, _optimizer: Optimizer, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        if not torch.compiler.is_compiling() and self._steps.running:
            self._steps.running.pop()

    def in_step(self) -> bool:
        """Whether an optimizer's step is still on the call stack: one that failed left without telling."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not self._steps.caller:
            frame = frame.f_back
        return frame is not None

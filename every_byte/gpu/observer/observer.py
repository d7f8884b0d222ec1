"""Observes, while a program runs on a GPU, whom its memory serves: model, optimizer, data or autograd."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch._C._autograd import _get_sequence_nr
from torch.autograd.graph import GradientEdge
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle

from every_byte.gpu.memory.contents import (
    Root,
    in_order,
    nodes_of,
    objects_of,
    outermost,
    parameters_of,
    split,
    tensors_in,
)
from every_byte.ledger.attribution import GraphNode, Pass, Role
from every_byte.ledger.roots import ModulePath, plain_path
from every_byte.palette import Category

from . import registrations
from .checkpoints import Frame
from .graph_walk import GraphWalk, last_of
from .observed import Observed, at_one_instant
from .optimizers import Optimizers
from .spans import Spans

_OF_A_MODEL = (Category.PARAMETERS, Category.BUFFERS)


class Observer:
    """Notes in a trace's owners what each allocation of one GPU is, at the moments at which that shows.

    These are: the start and the end of the outermost module's forward, of a backward, and of an optimizer's step; and
    when it is asked to look at all that is there. It refers to no tensor, module or node in between.
    """

    def __init__(self, memory: Observed) -> None:
        self.memory, self.owners = memory, memory.owners
        self.numbers_of, self._position = memory.numbers_of, memory.position
        module_of = memory.labels.modules.of_sequence_number
        noting = memory.note_computed, memory.shift
        self.graph = GraphWalk(self.owners, self._position, module_of, self.numbers_of, *noting)
        self._handles: list[RemovableHandle] = []
        self._looked_at: tuple[int, ...] = ()
        self._is_renamed = False
        self._forward: list[Any] | None = None
        self._steps: list[list[Any] | None] = []
        self._optimizers, self._spans = Optimizers(self.owners), Spans(self.owners, memory.labels, self._position)

    def open(self) -> None:
        self._handles = [
            register_module_forward_pre_hook(self._enter_forward),
            register_module_forward_hook(self._leave_forward, with_kwargs=True, always_call=True),
            register_optimizer_step_pre_hook(self._enter_step),
            register_optimizer_step_post_hook(self._leave_step),
        ]
        registrations.observe(self._note_registration)

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        registrations.end(self._note_registration)
        self._handles = []

    # what tensors and modules say

    def note(self, tensor: torch.Tensor, category: str, module: str = "", name: str = "") -> None:
        """Note what a tensor is."""
        for number in self.numbers_of(tensor):
            self.owners.add(number, Role(category, module, name))

    def note_copy(self, copy: torch.Tensor, of: torch.Tensor, category: str) -> None:
        """Note that a tensor is a copy of one whose module and name are known."""
        self.note(copy, category, *self._known_as(of)[1:])

    def _known_as(self, tensor: torch.Tensor) -> Role:
        for number in self.numbers_of(tensor):
            if (role := self.owners.role(number)) is not None:
                return role
        return _UNKNOWN

    def _note_model(self, root: nn.Module) -> None:
        roots = self.owners.roots
        for category, members in zip(_OF_A_MODEL, (root.named_parameters(), root.named_buffers()), strict=True):
            for path, tensor in members:
                for number in self.numbers_of(tensor):
                    module, name = split(plain_path(path))
                    self.owners.add(number, Role(category, ModulePath(module, roots.number_of(root)), name))

    def _note_registration(self, _module: nn.Module, _name: str, tensor: torch.Tensor | None) -> None:
        """What was an input, say, has become a module's own: the next look is to name it."""
        if tensor is not None and self.memory.is_watched():
            self._is_renamed |= any(number in self.owners.roles for number in self.numbers_of(tensor))

    def _note_input(self, tensor: torch.Tensor) -> None:
        """What a module is given is data, unless it is another module's result."""
        if tensor.grad_fn is None:
            for number in self.numbers_of(tensor):
                if number not in self.owners.roles:
                    self.owners.add(number, Role(Category.INPUTS))

    # forward

    def _is_root(self) -> bool:
        return self.memory.labels.modules.depth == 1 and torch._C._current_graph_task_id() == -1

    def _enter_forward(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        # hooks are compiled into a model's graph: these must leave nothing there
        if not torch.compiler.is_compiling() and self._is_root() and self.memory.is_watched():
            self._begin_forward(module, args)

    @at_one_instant
    def _begin_forward(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        self._note_model(module)
        for tensor in tensors_in(args):
            self._note_input(tensor)
        self._forward = self._spans.begin("forward", module)

    def _leave_forward(self, module: nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
        """`rest` is the keyword arguments and the output; the output alone where forward has failed."""
        if torch.compiler.is_compiling():
            return
        # the paths' own hook has run before this one, so that the root is not among the running modules any more
        is_over = self.memory.labels.modules.depth == 0 and torch._C._current_graph_task_id() == -1
        if is_over and self.memory.is_watched():
            self._end_forward((args, *rest[:-1]), list(tensors_in(rest[-1])))

    @at_one_instant
    def _end_forward(self, arguments: tuple[Any, ...], outputs: list[torch.Tensor]) -> None:
        self._spans.finish(self._forward)
        for tensor in tensors_in(arguments):
            self._note_input(tensor)
        for tensor in outputs:
            self.note(tensor, Category.OUTPUTS)
        for leaf in self.graph.read_new(nodes_of([x for x in outputs if self.memory.concerns(x)])):
            self._note_leaf(leaf)

    # backward

    @contextmanager
    def backward(
        self, roots: Sequence[object], gradients: object, retain_graph: bool, inputs: Sequence[object]
    ) -> Iterator[None]:
        """Note what the graph of these roots keeps before it runs; and after, that it is gone, and the gradients."""
        outputs = list(tensors_in(roots))
        begins: list[Root] = [root for root in roots if isinstance(root, (torch.Tensor, GradientEdge))]
        with self.memory.at_one_instant():
            span = self._spans.begin("backward")
            for tensor in outputs:
                self.note(tensor, Category.OUTPUTS)
            for tensor in tensors_in(gradients):
                self._note_start(tensor)
            nodes, leaves = self._walk(begins)
            backward = Pass(self._position(), nodes, releases=not (retain_graph or inputs))
            self.owners.passes.append(backward)
            self._spans.n_backwards += 1
        is_done = False
        try:
            with self.memory.in_backward(begins):
                yield
            is_done = True
        finally:
            with self.memory.at_one_instant():
                for leaf in leaves if is_done else ():
                    self._note_gradient(leaf)
                # it was to run a part of the graph, or has failed on the way
                emptied_in_part = not (retain_graph or is_done and backward.releases)
                if emptied_in_part:
                    backward.nodes, backward.releases = self.graph.emptied(nodes_of(begins)), True
                backward.end = self._position()
                if backward.releases:
                    self.graph.release(backward.nodes, backward.end)
                self._spans.n_backwards -= 1
                self._spans.finish(span)

    @at_one_instant
    def note_recomputed(self, frame: Frame, task: int) -> None:
        """Note what a checkpoint has just computed again."""
        self.graph.note_recomputed(frame, task)

    @at_one_instant
    def note_results(
        self, gradients: Iterable[torch.Tensor | None], inputs: torch.Tensor | Iterable[torch.Tensor]
    ) -> None:
        """What `torch.autograd.grad` returns."""
        for gradient, x in zip(in_order(gradients), in_order(inputs), strict=False):
            if isinstance(gradient, torch.Tensor):
                self.note(gradient, Category.GRADIENTS, *self._known_as(x)[1:])

    def _walk(self, roots: Iterable[Root]) -> tuple[list[GraphNode], list[torch.Tensor]]:
        concerned = [root for root in roots if isinstance(root, GradientEdge) or self.memory.concerns(root)]
        nodes, leaves = self.graph.walk(nodes_of(concerned))
        for leaf in leaves:
            self._note_leaf(leaf)
        return nodes, leaves

    def _note_start(self, gradient: torch.Tensor) -> None:
        """The gradient that a backward starts from: a given one, or the 1 that PyTorch has just made for a number."""
        for number in self.numbers_of(gradient):
            if number not in self.owners.roles:
                self.memory.note_start(number)

    def _note_leaf(self, leaf: torch.Tensor) -> None:
        for number in self.numbers_of(leaf):
            if number not in self.owners.roles:
                category = Category.PARAMETERS if isinstance(leaf, nn.Parameter) else Category.INPUTS
                self.owners.add(number, Role(category))

    def _note_gradient(self, leaf: torch.Tensor) -> None:
        if leaf.grad is not None:
            self.note(leaf.grad, Category.GRADIENTS, *self._known_as(leaf)[1:])

    # step

    @at_one_instant
    def _enter_step(self, optimizer: Optimizer, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        if torch.compiler.is_compiling() or not self.memory.is_watched():
            return
        self._steps.append(self._spans.begin("step"))
        for parameter in parameters_of(optimizer):
            if self._known_as(parameter).category not in _OF_A_MODEL:
                self.note(parameter, Category.PARAMETERS)
            self._note_gradient(parameter)

    @at_one_instant
    def _leave_step(self, optimizer: Optimizer, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        if torch.compiler.is_compiling() or not self.memory.is_watched():
            return
        self._note_state(optimizer)
        self._spans.finish(self._steps.pop() if self._steps else None)

    def _note_state(self, optimizer: Optimizer) -> None:
        states = getattr(optimizer, "state", {})  # torchao's CPUOffloadOptimizer never calls Optimizer.__init__
        for parameter in parameters_of(optimizer):
            _, module, name = self._known_as(parameter)
            for key, value in states.get(parameter, {}).items():
                for tensor in tensors_in(value):
                    self.note(tensor, Category.OPTIMIZER_STATE, module, f"{name}.{key}" if name else str(key))
                    self._optimizers.note(optimizer, self.numbers_of(tensor))

    # on demand

    @at_one_instant
    def look(self, again: bool = False) -> None:
        """Look at every tensor, module and optimizer that there is now, if anything here is not known for what it is.

        A program can make a tensor something else without an event, as `register_buffer` does: `again` looks anyway.
        """
        self.memory.settle()
        self._spans.end_what_is_over()
        state = self._position(), _get_sequence_nr(), self.owners.changes
        if not (again or self._is_renamed) and (state == self._looked_at or self._all_is_known()):
            return
        self._is_renamed = False
        modules, tensors, optimizers = self._all_there_is()
        for module in modules:
            self._note_model(module)
        for tensor in tensors:
            if isinstance(tensor, nn.Parameter):
                self._note_leaf(tensor)
        for optimizer in optimizers:
            for parameter in parameters_of(optimizer):
                self._note_gradient(parameter)
            self._note_state(optimizer)
        results = [x for x in tensors if x.grad_fn is not None]
        self._walk(results)
        self.owners.look_at({number for tensor in last_of(results) for number in self.numbers_of(tensor)})
        for tensor in tensors:
            if tensor.is_leaf or tensor.retains_grad:
                self._note_gradient(tensor)
        self._looked_at = self._position(), _get_sequence_nr(), self.owners.changes

    def _all_is_known(self) -> bool:
        """Whether a look could say no more of what is in use: where every tensor was seen, and each is something."""
        return self.owners.observed and all(map(self._is_known, self.owners.live))

    def _is_known(self, number: int) -> bool:
        role = self.owners.role(number)
        if role is None:
            return number in self.owners.kept or number not in self.owners.tensors
        return bool(role.name) or role.category not in _OF_A_MODEL  # their names may be missing

    def _all_there_is(self) -> tuple[list[nn.Module], list[torch.Tensor], list[Optimizer]]:
        """The outermost modules of the process, the tensors here, and the optimizers; none where there is no tensor."""
        if not self.memory.holds_tensors():
            return [], [], []
        modules, tensors, optimizers = objects_of(nn.Module, torch.Tensor, Optimizer)
        return outermost(modules), [x for x in tensors if self.numbers_of(x)], optimizers


_UNKNOWN = Role("")

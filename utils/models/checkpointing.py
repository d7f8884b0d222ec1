"""Activation checkpointing from scratch: the minimal one, and one that does what PyTorch's own does."""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeAlias, TypeVar

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.autograd.graph import saved_tensors_hooks

from every_byte.gpu.observer import checkpoints

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Likeness: TypeAlias = tuple[tuple[int, ...], str, str]  # a tensor's shape, dtype and device

# The minimal one: a node of the graph that stands for the whole region.


class Minimal(torch.autograd.Function):
    """A module as one node of the graph: it keeps the module's input, and runs the module again in backward."""

    @staticmethod
    def forward(ctx: Any, module: nn.Module, x: torch.Tensor, *parameters: torch.Tensor) -> Any:
        ctx.module = module
        ctx.save_for_backward(x, *parameters)
        return module(x)  # a Function's forward runs without grad: nothing in here is kept

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, *parameters = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.module(x)
        return None, *torch.autograd.grad(y, (x, *parameters), gradient, allow_unused=True)


minimal: Callable[..., torch.Tensor] = Minimal.apply


def minimal_checkpoint(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """`module(x)`, of which autograd keeps x alone.

    The parameters are arguments of the Function too: autograd gives gradients to what a node was given, and to nothing
    else. A tensor that the module uses and that is none of its parameters silently gets none.

    Shapes: x of floating-point numbers -> one tensor
    Counts: forward and backward must agree in everything else that the result depends on: it does not restore the
            random numbers (dropout!) or autocast.
    Raises: TypeError for a function that is no module, of whose tensors nothing is known; RuntimeError for second
            derivatives.
    Source: `CheckpointFunction` of torch.utils.checkpoint is of this kind (use_reentrant=True).
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"module must be an nn.Module, to know its parameters: got {module!r}; try `checkpoint`.")
    return minimal(module, x, *[parameter for parameter in module.parameters() if parameter.requires_grad])


# The complete one: the graph stays as it is, and its nodes keep placeholders.


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Runs a function so that autograd keeps its arguments alone, and runs it again when backward needs more.

    Called as `checkpoint(function, *args, **kwargs)`; arguments and results may be anything. Each node inside gets a
    placeholder where it would keep a tensor. The first node that backward comes to runs the function again; the tensors
    that it saves this time stand in for the placeholders, in the same order, until they are used.

    `random_state`, `autocast`: whether the second run begins with the random numbers of the first, and under the same
    autocast. `early_stop`: whether it ends where the last tensor is there that backward needs. All are on in
    `checkpoint`; each can be switched off to see what it is for.

    Counts: kept are tensors among the arguments, and whatever else these or the function hold; not what is inside of
            the region. The random state lies in CPU memory: 5,056 bytes for the CPU's, 16 for a GPU's. Where a node
            reads what it saved a second time, the region runs a second time.
    Raises: in backward, RuntimeError if the second run saves other tensors than the first, or if an argument was
            changed in place in between.
    Source: torch.utils.checkpoint with use_reentrant=False; tests/models/test_checkpointing.py compares the two.
    """

    random_state: bool = True
    autocast: bool = True
    early_stop: bool = True

    def __call__(
        self, function: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        if not torch.is_grad_enabled():
            return function(*args, **kwargs)
        arguments = _Arguments(args, kwargs)
        states: list[RandomState | AutocastState] = [RandomState(arguments.devices)] if self.random_state else []
        states += [AutocastState()] if self.autocast else []
        region = Region(function, arguments, states, self.early_stop)
        with saved_tensors_hooks(region.pack, region.unpack):
            return function(*args, **kwargs)


checkpoint = Checkpoint()


class _Placeholder:
    """What a node keeps in place of a tensor."""


class _Stop(Exception):
    """Ends the second run where nothing more is needed of it."""


class Region(checkpoints.Region):
    """One call of a checkpointed function: `pack` is called for what its nodes save, `unpack` for what they use."""

    def __init__(
        self,
        function: Callable[..., object],
        arguments: "_Arguments",
        states: "Sequence[RandomState | AutocastState]",
        early_stop: bool,
    ) -> None:
        self.function, self.arguments, self.states, self.early_stop = function, arguments, states, early_stop
        # Weak: a placeholder belongs to its node, and nobody computes for a node that has gone.
        self.placeholders: list[weakref.ref[_Placeholder]] = []
        self.likenesses: list[Likeness] = []
        self.recomputed: weakref.WeakKeyDictionary[object, torch.Tensor] = weakref.WeakKeyDictionary()

    def given(self) -> Iterator[object]:
        return iter(self.arguments.node._raw_saved_tensors)

    def pack(self, tensor: torch.Tensor) -> _Placeholder:
        placeholder = _Placeholder()
        self.placeholders.append(weakref.ref(placeholder))
        self.likenesses.append(_likeness(tensor))
        return placeholder

    def unpack(self, placeholder: _Placeholder) -> torch.Tensor:
        if placeholder not in self.recomputed:
            self.run_again()
        return self.recomputed.pop(placeholder)  # now its node owns it, and frees it when it is done

    def run_again(self) -> None:
        args, kwargs = self.arguments.given()
        n_saved = 0

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal n_saved
            tensor = tensor.detach()  # a node's own output and the node would keep each other alive
            self.keep(n_saved, tensor)
            n_saved += 1
            if self.early_stop and n_saved == len(self.placeholders):
                raise _Stop
            return tensor

        with ExitStack() as stack:
            for state in self.states:
                stack.enter_context(state.restored())
            stack.enter_context(torch.enable_grad())
            stack.enter_context(saved_tensors_hooks(pack, lambda tensor: tensor))
            try:
                self.function(*args, **kwargs)
            except _Stop:
                pass
        if n_saved != len(self.placeholders):
            raise RuntimeError(_differs(f"{len(self.placeholders)} tensors", f"{n_saved}"))

    def keep(self, i: int, tensor: torch.Tensor) -> None:
        """Note tensor number i of the second run for the node that saved tensor number i of the first."""
        expected = self.likenesses[i] if i < len(self.likenesses) else "nothing"
        if expected != _likeness(tensor):
            raise RuntimeError(_differs(f"{expected} as number {i}", f"{_likeness(tensor)}"))
        if (placeholder := self.placeholders[i]()) is not None:
            self.recomputed[placeholder] = tensor


def _likeness(tensor: torch.Tensor) -> Likeness:
    return tuple(tensor.shape), str(tensor.dtype), str(tensor.device)


def _differs(first: str, second: str) -> str:
    return (
        f"a checkpointed function must save the same tensors when it runs again: it saved {first} in forward, and "
        f"{second} in backward; what it depends on (train or eval, autocast, global variables) must not change between."
    )


# What a region keeps, and the states that it goes back to.


class _Keep(torch.autograd.Function):
    """Puts tensors under autograd's guard: it finds out about changes in place, and outer hooks see them."""

    @staticmethod
    def forward(ctx: Any, always_with_grad: torch.Tensor, *tensors: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*tensors)
        return always_with_grad.detach()


_keep: Callable[..., torch.Tensor] = _Keep.apply


class _Arguments:
    """The arguments of a call: tensors are kept by a node, everything else as it is."""

    def __init__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        values = [*args, *kwargs.values()]
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        self.n_args, self.names = len(args), list(kwargs)
        self.values = [_Keep if isinstance(value, torch.Tensor) else value for value in values]
        self.devices = sorted({tensor.device.index for tensor in tensors if tensor.is_cuda})
        self.kept = _keep(torch.empty(0, requires_grad=True), *tensors)

    @property
    def node(self) -> Any:
        """The node that keeps the tensors; a Node of PyTorch's stubs has nothing saved."""
        return self.kept.grad_fn

    def given(self) -> tuple[list[Any], dict[str, Any]]:
        tensors = iter(self.node.saved_tensors)
        values = [next(tensors) if value is _Keep else value for value in self.values]
        return values[: self.n_args], dict(zip(self.names, values[self.n_args :], strict=True))


class RandomState:
    """Where the random numbers of the CPU and of some GPUs stood when it was made."""

    def __init__(self, gpus: list[int]) -> None:
        self.cpu = torch.get_rng_state()
        self.gpus = {index: torch.cuda.get_rng_state(index) for index in gpus}

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Go back to there, and at the end to where they stand now."""
        with torch.random.fork_rng(list(self.gpus)):
            torch.set_rng_state(self.cpu)
            for index, state in self.gpus.items():
                torch.cuda.set_rng_state(state, index)
            yield


class AutocastState:
    """The autocast that was on when it was made, for the CPU and for GPUs."""

    def __init__(self) -> None:
        cache_enabled = torch.is_autocast_cache_enabled()
        self.settings: list[dict[str, Any]] = [
            {
                "device_type": kind,
                "enabled": torch.is_autocast_enabled(kind),
                "dtype": torch.get_autocast_dtype(kind),
                "cache_enabled": cache_enabled,
            }
            for kind in ("cuda", "cpu")
        ]

    @contextmanager
    def restored(self) -> Iterator[None]:
        """The same autocast, for a while."""
        with ExitStack() as stack:
            for settings in self.settings:
                stack.enter_context(torch.autocast(**settings))
            yield

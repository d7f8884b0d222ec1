"""One operation whose allocations are to be repeated in a GPU's memory, and the rules that say which those are.

A rule is called after the operation has run on meta tensors. It repeats, in CUDA's order, the allocations and frees
that the operator makes there. An operator without a rule allocates its outputs and nothing else.
"""

from collections.abc import Callable

import torch

from every_byte.gpu.memory.storages import Memory

RULES: dict[torch._ops.OpOverload, Callable[["Call"], None]] = {}


class Call:
    """One operation that has run on meta tensors, and the memory in which its allocations are to be repeated."""

    __slots__ = ("func", "args", "kwargs", "result", "memory")

    def __init__(self, func, args, kwargs, result, memory: Memory) -> None:
        self.func, self.args, self.kwargs, self.result, self.memory = func, args, kwargs, result, memory

    def place(self, *tensors: torch.Tensor) -> None:
        """Allocate results, in this order; those whose storage is there already are left alone."""
        for tensor in tensors:
            self.memory.place_if_new(tensor)

    def place_all(self) -> None:
        """Allocate every result, first to last."""
        self.memory.place_results(self.result)

    def while_taken(self, *sizes: int) -> None:
        """Take temporaries of these sizes and give them back, last first."""
        self.memory.while_taken(*sizes)


def rule(*overloads: torch._ops.OpOverload):
    """Register the decorated function as the rule of these operators."""

    def register(function: Callable[[Call], None]) -> Callable[[Call], None]:
        RULES.update(dict.fromkeys(overloads, function))
        return function

    return register

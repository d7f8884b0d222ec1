"""What an allocation of a snapshot is for, as far as its call stack says: categories, each with its rule."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from every_byte.palette import Category

from .history import BEFORE, Allocation, History
from .stacks import Stack

UNATTRIBUTED = Category.UNATTRIBUTED
FOUND = "before recording"


@dataclass(frozen=True)
class Rule:
    """A category and the rule by which an allocation belongs to it."""

    name: str
    rule: str
    holds: Callable[[Allocation, Stack, "Within"], bool]


class Within:
    """When something that PyTorch named, as `Optimizer.step`, was running: its START and END, by their times."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._spans: dict[str, tuple[list[int], list[int]]] = {}
        opened: dict[str, list[int]] = {}
        for one in sorted(history.annotations, key=lambda one: one["time_us"]):
            name = one["name"].partition("#")[0]
            if one["stage"] == "START":
                opened.setdefault(one["name"], []).append(one["time_us"])
            elif opened.get(one["name"]):
                begin = opened[one["name"]].pop()
                begins, ends = self._spans.setdefault(name, ([], []))
                if not opened[one["name"]]:
                    begins.append(begin)
                    ends.append(one["time_us"])

    def covers(self, name: str, position: int | None) -> bool:
        """Whether event number `position` came while it ran."""
        if position is None or position == BEFORE or name not in self._spans:
            return False
        time = self._history.entries[position].get("time_us")
        begins, ends = self._spans[name]
        if time is None:
            return False
        at = bisect_right(begins, time) - 1
        return at >= 0 and time <= ends[at]


def _is_temporary(each: Allocation, stack: Stack, _within: Within) -> bool:
    """Freed below an operator that also made it, at the same line of the user's."""
    return bool(stack.operators & each.freed_by.operators) and stack.lines == each.freed_by.lines


def _in_zero_grad(each: Allocation, _stack: Stack, within: Within) -> bool:
    by = each.freed_by
    return by.passes("optim/*:zero_grad", "nn/modules/*:zero_grad") or within.covers(
        "Optimizer.zero_grad", each.freed_at
    )


CATEGORIES = (
    Rule(FOUND, "no event of the history made it", lambda each, stack, within: each.made_at == BEFORE),
    Rule(
        Category.CUBLAS_WORKSPACE,
        "made by at::cuda::getCUDABlasLtWorkspace or getCurrentCUDABlasHandle",
        lambda each, stack, within: stack.maker.name == Category.CUBLAS_WORKSPACE,
    ),
    Rule(
        "temporary of an operator",
        "freed below the operator that made it, at the same line",
        _is_temporary,
    ),
    Rule(
        Category.OPTIMIZER_STATE,
        "made below _init_group in torch/optim",
        lambda each, stack, within: stack.passes("optim/*:_init_group"),
    ),
    Rule(
        "made in optimizer steps",
        "made below torch/optim, or while PyTorch's annotation Optimizer.step lasted",
        lambda each, stack, within: (
            stack.passes("optim/*:") or within.covers("Optimizer.step", each.made_at) or stack.label("phase") == "step"
        ),
    ),
    Rule(
        Category.GRADIENTS,
        "made by autograd's AccumulateGrad, or made in backward and freed in zero_grad",
        lambda each, stack, within: (
            stack.maker.node == "AccumulateGrad" or stack.in_backward and _in_zero_grad(each, stack, within)
        ),
    ),
    Rule(
        "recomputed for backward",
        "made below torch/utils/checkpoint.py, in backward",
        lambda each, stack, within: stack.passes(
            "utils/checkpoint.py:recompute_fn", "utils/checkpoint.py:unpack_hook", "utils/checkpoint.py:backward"
        ),
    ),
    Rule(
        "made in backward",
        "made below autograd's engine: gradients of parameters and of activations alike",
        lambda each, stack, within: stack.in_backward,
    ),
    Rule(
        Category.AUTOCAST_COPIES,
        "made by at::autocast::cached_cast",
        lambda each, stack, within: stack.maker.is_cast,
    ),
    Rule(
        "parameters and buffers",
        "made below Module._apply (.to, .cuda), or in the __init__ of a module of torch.nn",
        lambda each, stack, within: stack.passes("nn/modules/module.py:_apply", "nn/modules/*:__init__"),
    ),
    Rule(
        "communication",
        "made below torch/distributed or torch/nn/parallel",
        lambda each, stack, within: stack.passes("distributed/*:", "nn/parallel/*:"),
    ),
    Rule(
        "made in a module's forward",
        "made below Module._call_impl: activations, and what else forward holds",
        lambda each, stack, within: (
            stack.passes("nn/modules/module.py:_call_impl") or stack.label("phase") == "forward"
        ),
    ),
    Rule(UNATTRIBUTED, "none of these rules holds", lambda each, stack, within: True),
)


class Categories:
    """The category of each allocation of a history."""

    def __init__(self, history: History) -> None:
        self._within = Within(history)

    def of(self, each: Allocation) -> Rule:
        """The first whose rule holds."""
        return next(one for one in CATEGORIES if one.holds(each, each.stack, self._within))

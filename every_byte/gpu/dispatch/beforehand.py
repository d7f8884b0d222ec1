"""What is asked before an operation runs: for values, and in a deterministic run whether it may, and how."""

from typing import Any

import torch
from torch._ops import OpOverload

from every_byte.gpu.memory.calls import Args, Kwargs
from every_byte.gpu.memory.modes import Mode
from every_byte.gpu.operators import families  # noqa: F401  (families fill the registry)
from every_byte.gpu.operators.registry import REPEATED

from .values import ASK_VALUES, Answer


def _repeated(mode: Mode, func: OpOverload, args: Args, kwargs: Kwargs) -> Any:
    """What a deterministic run composes instead, or refuses; else what the operation asks in any run."""
    if torch.are_deterministic_algorithms_enabled():
        mode.memory.operation = func.name()
        with mode.seeing():
            answer = REPEATED[func](func, *args, **kwargs)
        if answer is not NotImplemented:
            return answer
    ask = ASK_VALUES.get(func)
    return ask and ask(mode, func, args, kwargs)


ASKED: dict[OpOverload, Answer] = ASK_VALUES | dict.fromkeys(REPEATED, _repeated)
"""By operator: a function of the dispatch mode, the operator and its arguments; it answers, or None: let it run."""

"""Notes where a program wraps a model in `nn.DataParallel`: with one GPU nothing of it shows in what is allocated."""

from typing import Any

from torch import nn

from every_byte.gpu.dispatch.places import own_line
from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.replacing import Function, Undo, replaced


def note_data_parallel() -> Undo:
    """Note the program's line that makes one. Returns what undoes it."""

    def noting(original: Function) -> Function:
        def __init__(wrapper: nn.DataParallel[Any], *args: Any, **kwargs: Any) -> None:
            if (mode := standing_for_cuda()) is not None:
                trace = mode.memory.trace
                trace.notes.data_parallel.setdefault(own_line(), len(trace.events))
            original(wrapper, *args, **kwargs)

        return __init__

    return replaced(nn.DataParallel, "__init__", noting)

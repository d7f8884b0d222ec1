"""Generation of text: no end-of-sequence token is sampled, and each sequence is as long as it may be.

That is the most memory that generation takes, for which people size. Where `generate` of transformers asks whether a
sequence has ended, none has; it stops at `max_new_tokens`, which it knows without the GPU.
Source: EosTokenCriteria in transformers/generation/stopping_criteria.py.
"""

from typing import Any

from every_byte.gpu.known.supposing import suppose_truths
from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.memory.physical import is_meta
from every_byte.gpu.patches.late import once_imported
from every_byte.gpu.patches.replacing import Function, Undo, replaced

NO_END = "no end of sequence"


def generate_all() -> Undo:
    """Let no sequence end before its time. Returns what undoes it."""
    criteria = "transformers.generation.stopping_criteria"
    return once_imported({criteria: lambda module: replaced(module.EosTokenCriteria, "__call__", _never)})


def _never(original: Function) -> Function:
    def ends(criterion: object, *args: Any, **kwargs: Any) -> Any:
        is_done = original(criterion, *args, **kwargs)
        mode = standing_for_cuda()
        if mode is not None and is_meta(is_done):
            suppose_truths(is_done, "none")
            mode.note_assumed(NO_END)
        return is_done

    return ends

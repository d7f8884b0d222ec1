"""Processes that a program forks: once "cuda" was used, none of them can use it, as on a card."""

import os
from collections.abc import Callable
from functools import partial

import torch

from every_byte.gpu.memory.attachment import OPEN_AS_CUDA
from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.replacing import Undo, replaced

from .naming import as_cuda

_registered: list[bool] = []


def note_forks() -> Undo:
    """Let a process know that it was forked from one that has used the GPU. Returns what undoes it."""
    if not _registered:
        os.register_at_fork(after_in_child=_note)
        _registered.append(True)
    return replaced(torch.cuda, "_is_in_bad_fork", lambda original: partial(_is_in_bad_fork, original))


def _note() -> None:
    for mode in OPEN_AS_CUDA:
        mode.memory.as_cuda.is_forked = bool(mode.memory.trace.events)


def _is_in_bad_fork(original: Callable[[], bool]) -> bool:
    return original() if standing_for_cuda() is None else as_cuda().is_forked

"""Tracebacks of what goes wrong on a simulated GPU: as on a card, they end at the line that called PyTorch."""

import dis
import os
import sys
import threading
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

from every_byte.gpu.patches.replacing import Function, Undo, all_of, replaced

ALL_FRAMES = "EVERY_BYTE_FRAMES"
"""The environment variable that, set to 1, leaves our own frames in tracebacks."""
_OURS = f"{Path(__file__).resolve().parents[2]}{os.sep}"
_OF_A_MISTAKE = ("BINARY_", "COMPARE_", "DELETE_", "LOAD_", "STORE_", "UNPACK_")


def shows_all_frames() -> bool:
    """Whether our own frames are to be seen."""
    return os.environ.get(ALL_FRAMES, "") not in ("", "0")


def trim(error: BaseException | None) -> None:
    """Take our frames out of an error's traceback, and out of those of the errors that led to it."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        current.__traceback__ = without_ours(current.__traceback__)
        pending += [current.__cause__, current.__context__, *getattr(current, "exceptions", ())]


def without_ours(tb: TracebackType | None) -> TracebackType | None:
    """A traceback without our frames; it is changed.

    Counts: all frames stay where one asks for them, and where the mistake is ours: not refused, but come upon in our
        code, as a key that there is not.
    """
    if tb is None or shows_all_frames() or _is_mistake(tb):
        return tb
    kept = _next(tb)
    last = kept
    while last is not None:
        last.tb_next = _next(last.tb_next)
        last = last.tb_next
    return kept


def _next(tb: TracebackType | None) -> TracebackType | None:
    while tb is not None and _is_ours(tb):
        tb = tb.tb_next
    return tb


def _is_ours(tb: TracebackType) -> bool:
    return tb.tb_frame.f_code.co_filename.startswith(_OURS)


def _is_mistake(tb: TracebackType) -> bool:
    while tb.tb_next is not None:
        tb = tb.tb_next
    return _is_ours(tb) and dis.opname[tb.tb_frame.f_code.co_code[tb.tb_lasti]].startswith(_OF_A_MISTAKE)


def end_tracebacks_at_the_program() -> Undo:
    """Print none of our frames, whoever prints: `traceback`, `logging`, a thread, Python. Returns what undoes it."""
    hooks = [(threading, "excepthook"), (sys, "unraisablehook")]
    walks = [(traceback, "walk_tb"), (traceback, "_walk_tb_with_full_positions")]
    undoings = [replaced(owner, name, _hooking) for owner, name in hooks]
    undoings += [replaced(owner, name, _walking) for owner, name in walks if hasattr(owner, name)]
    return all_of(undoings)


def _hooking(original: Function) -> Function:
    def hook(what: Any) -> None:  # what either hook is told
        trim(what.exc_value)
        original(what)

    return hook


def _walking(original: Function) -> Function:
    def walk(tb: TracebackType | None) -> Any:
        return original(without_ours(tb))

    return walk

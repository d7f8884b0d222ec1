"""Whether a truth that a program reads decides whether it raises: `assert (b >= 0).all()`, `if not ok: raise …`.

A check of numbers that were never computed is taken to hold, as it does in a program that runs. What comes of a truth
is read in the bytecode of the frame that reads it.
"""

import dis
from functools import lru_cache
from types import CodeType, FrameType

_PASSED = frozenset(("CACHE", "NOP", "EXTENDED_ARG", "PRECALL", "TO_BOOL", "COPY_FREE_VARS", "RESUME", "NOT_TAKEN"))
_ENDS = ("RETURN_VALUE", "RETURN_CONST", "RETURN_GENERATOR", "YIELD_VALUE", "RERAISE")
_MOST_STEPS = 600  # from a jump to the `raise`, whose message may be long: pytest writes such
_MOST_FRAMES = 3  # that hand a truth on, as `def finite(x): return bool(x.isfinite().all())`


def must_hold(frame: FrameType | None) -> bool:
    """Whether the truth that this frame reads makes the program raise if it is false, and not if it is true."""
    return _raises(frame, False) and not _raises(frame, True)


def _raises(frame: FrameType | None, truth: bool) -> bool:
    for _ in range(_MOST_FRAMES):
        if frame is None or frame.f_lasti < 0:
            return False
        outcome = _outcome(frame.f_code, frame.f_lasti, truth)
        if not isinstance(outcome, tuple):
            return outcome
        frame, truth = frame.f_back, outcome[0]
    return False


@lru_cache(maxsize=1024)
def _outcome(code: CodeType, reading: int, truth: bool) -> bool | tuple[bool]:
    """What comes of a truth that is read at this place: whether it raises; or, in a tuple, what it returns of it."""
    steps, at = _steps(code)
    i = max(at[offset] for offset in at if offset <= reading)  # a frame that waits for a call may stand behind it
    if not _decides(steps[i].opname):
        i += 1  # a call, whose result is the truth
    while i < len(steps):
        name = steps[i].opname
        if name == "UNARY_NOT":
            truth = not truth
        elif name == "RETURN_VALUE":
            return (truth,)
        elif _jumps_by_truth(name):
            is_taken = truth is ("IF_TRUE" in name)
            return _raises_from(steps, at, at.get(steps[i].argval, len(steps)) if is_taken else i + 1)
        elif name not in _PASSED:
            return False
        i += 1
    return False


@lru_cache(maxsize=256)
def _steps(code: CodeType) -> tuple[list[dis.Instruction], dict[int, int]]:
    steps = list(dis.get_instructions(code))
    return steps, {step.offset: i for i, step in enumerate(steps)}


def _jumps_by_truth(name: str) -> bool:
    return name.startswith(("POP_JUMP", "JUMP_IF")) and name.endswith(("IF_TRUE", "IF_FALSE", "OR_POP"))


def _decides(name: str) -> bool:
    return _jumps_by_truth(name) or name in ("UNARY_NOT", "TO_BOOL")


def _raises_from(steps: list[dis.Instruction], at: dict[int, int], i: int) -> bool:
    """Whether every way from here leads to a `raise`, an assertion's or one of the program's, and none back."""
    seen, waiting = set(), [i]
    while waiting:
        i = waiting.pop()
        if i in seen:
            continue
        seen.add(i)
        if i >= len(steps) or len(seen) > _MOST_STEPS:
            return False
        step = steps[i]
        if step.opname == "RAISE_VARARGS":
            continue
        if step.opname in _ENDS or "BACKWARD" in step.opname or step.opname == "FOR_ITER":
            return False
        if "JUMP" in step.opname:
            waiting.append(at.get(step.argval, len(steps)))
        if step.opname not in ("JUMP_FORWARD", "JUMP_ABSOLUTE"):
            waiting.append(i + 1)
    return True

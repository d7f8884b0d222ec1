"""Who calls an allocation: the Python frames under way, read once for each place in the code.

A frame is looked at and let go; what is kept are code objects and numbers of instructions, which hold no tensor.
"""

import sys
import threading
from bisect import bisect_left
from pathlib import Path
from types import CodeType, FrameType

from torch._C._autograd import _get_sequence_nr

from .deep_graphs import number_of, running_node
from .source_lines import NO_STACK, CallStack, Line, is_own

_OURS = f"{Path(__file__).resolve().parents[1]}/"
_STARTS = tuple(f"{_OURS}{name}" for name in ("cli/program.py", "plugin/hooks.py", "magics/gpu.py"))
"""The files of ours that start a program: what called these is none of its lines."""
MOST_FRAMES = 100
"""So many frames of a stack are kept, the innermost ones."""

_INSTRUMENT, _LIBRARY, _OWN, _ENGINE = range(4)


class _Nodes(threading.local):
    """Which nodes a thread's operations have made: those up to number `ends[i]`, from the end before it on."""

    def __init__(self) -> None:
        self.n_nodes = 0
        self.ends: list[int] = []
        self.stacks: list[CallStack] = []


class CallStacks:
    """Says from where in the program an allocation is called; in backward, from where the forward of its node was.

    `enter` and `leave` enclose an operation, within which all is called from one place.

    Counts: an autograd node that was made on another thread, or before this began, has no line of its own: what its
            backward allocates has the line that called backward.
    """

    def __init__(self) -> None:
        self._kinds: dict[int, int] = {}  # by id: a code object's hash is slow
        self._codes: dict[int, CodeType] = {}
        self._stacks: dict[tuple[int, ...], CallStack] = {}
        self._nodes = _Nodes()
        self._here: CallStack | None = None
        self._is_within = False

    def enter(self) -> None:
        """An operation begins: if autograd has made nodes since the last one, they are this one's."""
        self._here, self._is_within = None, True
        nodes, n_nodes = self._nodes, _get_sequence_nr()
        if n_nodes == nodes.n_nodes:
            return
        nodes.n_nodes = n_nodes
        self._here = stack = self._now()
        if nodes.stacks and nodes.stacks[-1] is stack:
            nodes.ends[-1] = n_nodes - 1
        else:
            nodes.ends.append(n_nodes - 1)
            nodes.stacks.append(stack)

    def leave(self) -> None:
        """The operation is over."""
        self._here, self._is_within = None, False

    def now(self) -> CallStack:
        """Who calls now; what the engine runs has the stack of its node's forward, where that is known."""
        if self._here is not None:
            return self._here
        stack = self._now()
        if self._is_within:
            self._here = stack
        return stack

    def _now(self) -> CallStack:
        stack = self._called()
        if stack.in_engine and (node := running_node()):
            return self._of_node(number_of(node)) or stack
        return stack

    def _of_node(self, number: int) -> CallStack | None:
        nodes = self._nodes
        i = bisect_left(nodes.ends, number)
        if i == len(nodes.ends) or nodes.stacks[i].own is None:
            return None
        return nodes.stacks[i]

    def _called(self) -> CallStack:
        """The stack of the frames under way; the first time from one place they are read, after that looked up."""
        kinds, codes, first = self._kinds, self._codes, sys._getframe(2)
        key: list[int] = []
        frame: FrameType | None = first
        while frame is not None:
            number = id(code := frame.f_code)
            if number not in kinds:
                kinds[number], codes[number] = _kind(code), code
            if kinds[number]:
                key.append(number)
                key.append(frame.f_lasti)
            frame = frame.f_back
        place = tuple(key)
        found = self._stacks.get(place)
        if found is None:
            found = self._stacks[place] = self._read(first)
        return found

    def _read(self, frame: FrameType | None) -> CallStack:
        frames: list[Line] = []
        own, last_own, in_engine = None, 0, False
        while frame is not None and frame.f_code.co_filename not in _STARTS:
            code = frame.f_code
            kind = self._kinds[id(code)]
            if kind != _INSTRUMENT:
                line = Line(code.co_filename, frame.f_lineno or code.co_firstlineno, code.co_name)
                frames.append(line)
            if kind == _OWN:
                own, last_own = own or line, len(frames)
            in_engine |= kind == _ENGINE and own is None
            frame = frame.f_back
        if not frames:
            return NO_STACK
        return CallStack(tuple(frames[: min(last_own or MOST_FRAMES, MOST_FRAMES)]), own, in_engine)


def _kind(code: CodeType) -> int:
    filename = code.co_filename
    if filename.startswith(_OURS):
        return _INSTRUMENT
    if code.co_name == "_engine_run_backward":
        return _ENGINE
    return _OWN if is_own(filename) else _LIBRARY

"""What a call stack of a snapshot says: the user's own line, operator and autograd node, and what it went by."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from every_byte.ledger.frames import Maker, maker_of

_LIBRARY = re.compile(
    r"(^|[/\\])(site-packages|dist-packages)[/\\]|[/\\]lib[/\\]python3\.\d+[/\\]|^<frozen |^<eval_with_key>"
    r"|torchinductor_"
    r"|(^|[/\\])torch[/\\](_\w+|ao|amp|autograd|backends|cuda|distributed|distributions|export|func|fx|jit|library|nn|"
    r"optim|overrides|random|serialization|sparse|storage|utils|functional)([/\\]|\.py$)"
)
_ENGINE = "torch::autograd::Engine::"
_LABELS = ("operation", "node", "module", "phase")
"""What the snapshot of a simulated GPU has in place of the names of files."""


class Line(NamedTuple):
    """A line of Python code and the function that it is in."""

    filename: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.filename}:{self.line} {self.function}"


@dataclass(frozen=True, slots=True)
class Stack:
    """A call stack, read once.

    `lines` are the user's own, innermost first: neither in torch, nor in site-packages or the standard library.
    `of_torch` are files below torch/ and functions in them, as "optim/adamw.py:step". `operators` has all operators in
    C++ that it passed. `in_backward`: below autograd's engine. Of a simulated GPU's, `labels` says operation, node,
    module and phase.
    """

    lines: tuple[Line, ...] = ()
    of_torch: frozenset[str] = frozenset()
    maker: Maker = Maker()
    operators: frozenset[str] = frozenset()
    has_cpp: bool = False
    in_backward: bool = False
    labels: tuple[tuple[str, str], ...] = ()
    is_empty: bool = True

    @property
    def line(self) -> Line | None:
        """The innermost line of the user's own."""
        return self.lines[0] if self.lines else None

    def label(self, name: str) -> str:
        """What a simulated GPU said of it."""
        return dict(self.labels).get(name, "")

    def passes(self, *places: str) -> bool:
        """Whether it goes by one of these: "optim/*:step" is any file in that folder, a "*" in front any path."""
        return any(_matches(place, passed) for passed in self.of_torch for place in places)


def _matches(place: str, passed: str) -> bool:
    folder, _, function = place.partition("*:")
    if _:
        return passed.startswith(folder) and (not function or passed.endswith(f":{function}"))
    return passed == place


EMPTY = Stack()


class Stacks:
    """The stacks of one snapshot; the same frames are read once, however many events have them."""

    def __init__(self) -> None:
        self._by_list: dict[int, Stack] = {}
        self._by_frames: dict[tuple[int, ...], Stack] = {}
        self._kinds: dict[int, int] = {}

    def of(self, frames: Sequence[dict]) -> Stack:
        """What these frames say; they live as long as the snapshot."""
        if not frames:
            return EMPTY
        known = self._by_list.get(id(frames))
        if known is None:
            key = tuple(map(id, frames))
            known = self._by_frames.get(key)
            if known is None:
                known = self._by_frames[key] = self._read(frames)
            self._by_list[id(frames)] = known
        return known

    def _read(self, frames: Sequence[dict]) -> Stack:
        of_python, labels = [], []
        for frame in frames:
            kind = self._kinds.get(id(frame))
            if kind is None:
                kind = self._kinds[id(frame)] = _kind(frame)
            if kind == _PYTHON:
                of_python.append(frame)
            elif kind == _LABEL:
                labels.append((frame["filename"], frame["name"]))
        if labels:
            said = dict(labels)
            return Stack(
                maker=Maker(said.get("operation", ""), said.get("node", "")),
                in_backward=said.get("phase") == "backward",
                labels=tuple(said.items()),
                is_empty=False,
            )
        lines = [Line(f["filename"], f["line"], f["name"]) for f in of_python if not _LIBRARY.search(f["filename"])]
        passed = {f"{below}:{f['name']}" for f in of_python if (below := _below_torch(f["filename"]))}
        maker = maker_of(frames)
        operators = {f["name"].partition("(")[0] for f in frames if f["name"].startswith("at::_ops::")}
        return Stack(
            tuple(lines),
            frozenset(passed),
            maker,
            frozenset(operators),
            has_cpp=len(of_python) < len(frames),
            in_backward=bool(maker.node) or any(frame["name"].startswith(_ENGINE) for frame in frames),
            is_empty=False,
        )


_PYTHON, _LABEL, _CPP = range(3)


def _kind(frame: dict) -> int:
    filename = frame["filename"]
    if filename.endswith(".py") or filename.startswith("<") and filename.endswith(">"):
        return _PYTHON
    return _LABEL if filename in _LABELS and frame["line"] == 0 else _CPP


def _below_torch(filename: str) -> str:
    """The path below the last folder `torch`: "nn/modules/linear.py"; "" where there is none."""
    _, found, below = filename.replace("\\", "/").rpartition("/torch/")
    if not found and filename.startswith("torch/"):
        return filename.removeprefix("torch/")
    return below

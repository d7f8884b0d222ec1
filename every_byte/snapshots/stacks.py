"""What a call stack of a snapshot says: the user's own line, operator and autograd node, and what it went by."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from every_byte.ledger.frames import Maker, maker_of
from every_byte.ledger.source_lines import Line, is_of_a_library, readable

_ENGINE = "torch::autograd::Engine::"
_LABELS = ("operation", "node", "module", "phase")
"""What the snapshot of a simulated GPU has in place of the names of files."""
MOST_LINES = MOST_OPERATORS = 100
"""So many of each are kept of a stack, the innermost ones: hardly any has more."""


@dataclass(frozen=True, slots=True, eq=False)
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
    _passed: dict[tuple[str, ...], bool] = field(default_factory=dict, repr=False)

    @property
    def line(self) -> Line | None:
        """The innermost line of the user's own."""
        return self.lines[0] if self.lines else None

    def label(self, name: str) -> str:
        """What a simulated GPU said of it."""
        return dict(self.labels).get(name, "")

    def passes(self, *places: str) -> bool:
        """Whether it goes by one of these: "optim/*:step" is any file in that folder, a "*" in front any path."""
        if places not in self._passed:
            self._passed[places] = any(_matches(place, passed) for passed in self.of_torch for place in places)
        return self._passed[places]


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

    def of(self, frames: Sequence[dict[str, Any]]) -> Stack:
        """What these frames say; they live as long as the snapshot."""
        if not frames:
            return EMPTY
        known = self._by_list.get(id(frames))  # which lives as long as the snapshot
        if known is None:
            key = tuple(map(id, frames))
            known = self._by_frames.get(key)
            if known is None:
                known = self._by_frames[key] = self._read(frames)
            self._by_list[id(frames)] = known
        return known

    def files(self) -> set[str]:
        """The files of the user's own lines."""
        return {readable(line.filename) for stack in self._by_frames.values() for line in stack.lines}

    def _read(self, frames: Sequence[dict[str, Any]]) -> Stack:
        of_python, labels = [], []
        for frame in frames:
            kind = self._kinds.get(id(frame))
            if kind is None:
                kind = self._kinds[id(frame)] = _kind(frame)
            if kind == _PYTHON:
                of_python.append(frame)
            elif kind == _LABEL:
                labels.append((frame["filename"], readable(frame["name"])))
        own = (Line(f["filename"], f["line"], f["name"]) for f in of_python if not is_of_a_library(f["filename"]))
        lines = tuple(islice(own, MOST_LINES))
        if labels:
            said = dict(labels)
            return Stack(
                lines,
                maker=Maker(said.get("operation", ""), said.get("node", "")),
                in_backward=said.get("phase") == "backward",
                labels=tuple(said.items()),
                is_empty=False,
            )
        passed = {f"{below}:{f['name']}" for f in of_python if (below := _below_torch(f["filename"]))}
        maker = maker_of(frames)
        operators = dict.fromkeys(f["name"].partition("(")[0] for f in frames if f["name"].startswith("at::_ops::"))
        return Stack(
            lines,
            frozenset(passed),
            maker._replace(operation=readable(maker.operation), node=readable(maker.node)),
            frozenset(islice(operators, MOST_OPERATORS)),
            has_cpp=len(of_python) < len(frames),
            in_backward=bool(maker.node) or any(frame["name"].startswith(_ENGINE) for frame in frames),
            is_empty=False,
        )


_PYTHON, _LABEL, _CPP = range(3)


def _kind(frame: dict[str, Any]) -> int:
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

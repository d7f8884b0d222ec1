"""What is known of a storage's bytes: how they came about, as a graph of operations that can be run on the CPU.

A graph refers to no tensor and no storage of the GPU: nothing that is known keeps a block alive.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from every_byte.gpu.memory.calls import Args, Kwargs
from every_byte.gpu.memory.physical import offset_of, shape_of

MOST_BYTES = 1 << 25
"""The largest storage of integers of which something is known."""

MOST_TRUTHS_BYTES = 1 << 28
"""The same for booleans: whether all numbers of a large parameter are finite."""

MOST_FLOAT_BYTES = 1 << 18
"""The same for floating-point numbers."""

MOST_BROUGHT_BYTES = 1 << 22
"""The largest tensor of the host of which a copy is kept."""

MOST_HELD_BYTES = 1 << 28
"""How many bytes are held in all, for all that is known: beyond it nothing more is."""

MOST_ELEMENTS = 1 << 28
"""The largest operand, also where it is a small storage that is expanded."""

DTYPES = frozenset((
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
))  # fmt: skip


class Place(NamedTuple):
    """How a tensor lies in its storage; strides and offset in elements."""

    dtype: torch.dtype
    shape: torch.Size
    stride: tuple[int, ...]
    offset: int


class Value(NamedTuple):
    """The bytes of a storage, on the CPU; `taint` has -1 in each byte that depends on what is unknown, or is None."""

    storage: torch.UntypedStorage
    taint: torch.UntypedStorage | None


class Operand(NamedTuple):
    """A tensor among the arguments of a step: in what content it lies, and how; None is a content that is unknown."""

    content: "Content | None"
    place: Place


class Blank(NamedTuple):
    """A tensor among the arguments of a step that is written and not read."""

    place: Place


class Step(NamedTuple):
    """An operation to run on the CPU: its operands stand where its tensors stood."""

    func: Callable[..., Any]
    args: Args
    kwargs: Kwargs
    written: tuple[int | str, ...]
    """Which arguments it writes, by their position or name; none if its results are new."""


class _Held:
    """How many bytes are held now."""

    def __init__(self) -> None:
        self.n_bytes = 0

    def has_room(self, n_bytes: int) -> bool:
        return self.n_bytes + n_bytes <= MOST_HELD_BYTES


HELD = _Held()


class Content:
    """A storage's bytes at one time: a value; or those before, with one result of a step laid over them.

    It is `supposed` where it follows from what is supposed of a router's choice (supposing.py).
    """

    __slots__ = ("before", "depth", "n_bytes", "output", "place", "sources", "step", "supposed", "value")

    place: Place  # of the result; a value that was brought has none

    def __init__(self, n_bytes: int, value: Value | None = None) -> None:
        self.n_bytes, self.depth, self.output = n_bytes, 0, 0
        self.step: Step | None = None
        self.before: Content | None = None
        self.sources: tuple[Content, ...] = ()
        self.value: Value | None = None
        self.supposed = False
        if value is not None:
            self.hold(value)

    @classmethod
    def made(
        cls, n_bytes: int, step: Step, output: int, place: Place, sources: "list[Content]", before: "Content | None"
    ) -> "Content":
        """The content of a storage into which result number `output` of a step has been written."""
        content = cls(n_bytes)
        content.step, content.output, content.place, content.before = step, output, place, before
        content.sources = (*sources, before) if before is not None else tuple(sources)
        content.depth = 1 + max((source.depth for source in content.sources), default=0)
        content.supposed = any(source.supposed for source in content.sources)
        return content

    def hold(self, value: Value) -> None:
        """Keep its value: of how it came about nothing more is needed."""
        HELD.n_bytes += self.n_bytes
        self.value, self.step, self.before, self.sources, self.depth = value, None, None, (), 0

    def __del__(self, held: _Held = HELD) -> None:
        """`held` is named here because a content may outlive this module's names, at the end of the process."""
        if self.value is not None:
            held.n_bytes -= self.n_bytes


def place_of(tensor: torch.Tensor) -> Place:
    """How a tensor lies in its storage."""
    return Place(tensor.dtype, shape_of(tensor), tensor.stride(), offset_of(tensor))


def may_be_known(dtype: torch.dtype, n_bytes: int) -> bool:
    """Whether a storage, used in this type, is small enough for something to be known of it."""
    most_bytes = MOST_FLOAT_BYTES if dtype.is_floating_point else MOST_BYTES
    return dtype in DTYPES and n_bytes <= (MOST_TRUTHS_BYTES if dtype is torch.bool else most_bytes)


def brought(tensor: torch.Tensor) -> Operand | None:
    """A copy of a tensor of the CPU, for what is made of it on the GPU; None if it is too large, or not plain."""
    n_bytes = tensor.numel() * tensor.element_size()
    is_plain = tensor.layout is torch.strided and not tensor.is_neg()
    if not is_plain or n_bytes > MOST_BROUGHT_BYTES or not may_be_known(tensor.dtype, n_bytes):
        return None
    if not HELD.has_room(n_bytes):
        return None
    copied = torch.empty(shape_of(tensor), dtype=tensor.dtype, device="cpu")
    copied.copy_(tensor.detach())
    return Operand(Content(n_bytes, Value(copied.untyped_storage(), None)), place_of(copied))

"""CUDA's streams, as far as they decide where memory comes from: which stream a program allocates in.

Nothing runs on a simulated GPU, so nothing is to wait for: events are over when they are recorded. What remains of a
stream is that the allocator keeps its free blocks apart from those of the others. One rule of CUDA's is not followed,
and flagged where it matters: there, backward runs each node in the stream of its forward; here, in that in which it is
called.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import torch

from every_byte.gpu.memory.modes import Mode, attached, standing_for_cuda
from every_byte.gpu.memory.storages import Memory

_META: int = torch._C._autograd.DeviceType.Meta.value


def _mode() -> Mode:
    mode = attached()[-1] if attached() else standing_for_cuda()
    assert mode is not None  # whoever has a stream has a GPU
    return mode


class Event:
    """A moment in a stream; it has always passed."""

    def __init__(self, **settings: Any) -> None:
        """Takes what PyTorch's events take: whether to time, and so on; there is nothing to time."""

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds between two events: none."""
        return 0.0

    def record(self, stream: torch.Stream | None = None) -> None:
        """Nothing is under way."""

    def wait(self, stream: torch.Stream | None = None) -> None:
        """It has passed."""

    def synchronize(self) -> None:
        """It has passed."""

    def query(self) -> bool:
        """Whether all work before it is done."""
        return True


class Stream(torch.Stream):
    """A stream of the innermost simulated GPU, told apart by its number; 0 is the one that programs begin in."""

    memory: Memory
    number: int
    _outer: list[int]

    def __new__(cls, device: object = None, priority: int = 0, *, number: int | None = None, **_ids: Any) -> Self:
        memory = _mode().memory
        if number is None:
            number = memory.streams.make()
        new = super().__new__(cls, stream_id=number, device_index=0, device_type=_META)
        new.memory, new.number, new._outer = memory, number, []
        return new

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.memory, self.number) == (other.memory, other.number)

    def __hash__(self) -> int:
        return hash((id(self.memory), self.number))

    def __enter__(self) -> Self:
        if self.memory is not _mode().memory:
            raise RuntimeError(
                f"a stream is entered while its GPU is the innermost open one: it is of {self.memory.spec.name}, and "
                f"{_mode().memory.spec.name} is open; make one there."
            )
        streams = self.memory.streams
        self._outer.append(streams.current)
        streams.switch(self.number)
        return self

    def __exit__(self, *exception: Any) -> None:
        self.memory.streams.switch(self._outer.pop())

    def wait_stream(self, other: torch.Stream) -> None:
        """Nothing is under way."""

    def wait_event(self, event: object) -> None:
        """It has passed."""

    def record_event(self, event: Any = None) -> Any:  # ours, of a class of its own
        """The present, as an event."""
        return event or Event()

    def query(self) -> bool:
        """Whether all its work is done."""
        return True

    def synchronize(self) -> None:
        """Nothing is under way."""


def current_stream(device: object = None) -> Stream:
    """The stream in which the innermost simulated GPU allocates now."""
    return Stream(number=_mode().memory.streams.current)


def stream(which: torch.Stream | None) -> AbstractContextManager[object]:
    """Allocate in this stream inside."""
    return nullcontext() if which is None else which


def current_device() -> int:
    """The number of the GPU: there is one."""
    return 0

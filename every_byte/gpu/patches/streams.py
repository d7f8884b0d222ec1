"""CUDA's streams, as far as they decide where memory comes from: which stream a program allocates in.

Nothing runs on a simulated GPU, so nothing is to wait for: events are over when they are recorded. What remains of a
stream is that the allocator keeps its free blocks apart from those of the others.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from every_byte.gpu.memory.attachment import attached


class Event:
    """A moment in a stream; it has always passed."""

    def __init__(self, **settings) -> None:
        pass

    def record(self, stream: "Stream | None" = None) -> None:
        """Nothing is under way."""

    def wait(self, stream: "Stream | None" = None) -> None:
        """It has passed."""

    def synchronize(self) -> None:
        """It has passed."""

    def query(self) -> bool:
        """Whether all work before it is done."""
        return True


class Stream:
    """A stream of the innermost simulated GPU, told apart by its number; 0 is the one that programs begin in."""

    def __init__(self, device=None, priority: int = 0, *, number: int | None = None) -> None:
        self.memory = attached()[-1].memory
        if number is None:
            self.memory.streams += 1
            number = self.memory.streams
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.memory, self.number) == (other.memory, other.number)

    def __hash__(self) -> int:
        return hash((id(self.memory), self.number))

    def wait_stream(self, other: "Stream") -> None:
        """Nothing is under way."""

    def wait_event(self, event: Event) -> None:
        """It has passed."""

    def record_event(self, event: Event | None = None) -> Event:
        """The present, as an event."""
        return event or Event()

    def synchronize(self) -> None:
        """Nothing is under way."""


def current_stream(device=None) -> Stream:
    """The stream in which the innermost simulated GPU allocates now."""
    return Stream(number=attached()[-1].memory.stream)


@contextmanager
def stream(which: Stream | None) -> Iterator[None]:
    """Allocate in this stream inside."""
    if which is None:
        yield
        return
    before, which.memory.stream = which.memory.stream, which.number
    try:
        yield
    finally:
        which.memory.stream = before


def current_device() -> int:
    """The number of the GPU: there is one."""
    return 0

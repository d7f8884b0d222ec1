"""`torch.cuda.Stream` and `torch.cuda.Event` for a program that finds a simulated GPU as "cuda"."""

import time

import torch

from every_byte.gpu.patches import streams

_CUDA = int(torch._C._autograd.DeviceType.CUDA)
_LEAST_MS = 1e-3  # no program divides by 0 on a card


class Stream(streams.Stream):
    """A stream of the simulated GPU, under the names that CUDA's have."""

    def __new__(cls, device=None, priority: int = 0, stream_id: int | None = None, **_rest) -> "Stream":
        return super().__new__(cls, number=stream_id)

    @property
    def device(self) -> torch.device:
        """Where it is, as a program is told."""
        return self.memory.as_cuda.device

    @property
    def device_index(self) -> int:
        """The number of its GPU."""
        return self.memory.as_cuda.index

    @property
    def device_type(self) -> int:
        """PyTorch's number for CUDA."""
        return _CUDA

    @property
    def cuda_stream(self) -> int:
        """What CUDA's own functions know it by: 0 for the first, as there."""
        return self.number

    @property
    def priority(self) -> int:
        """All are alike."""
        return 0

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The lowest and the highest, as on a card."""
        return 0, -5

    def record_event(self, event: "Event | None" = None) -> "Event":
        """The present, as an event."""
        event = event or Event()
        event.record(self)
        return event


class Event(streams.Event):
    """A moment, which has passed as soon as it is recorded. What lies between two is the simulation's own time."""

    def __init__(self, device=None, **settings) -> None:
        super().__init__(**settings)
        self._at: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Note the time."""
        self._at = time.perf_counter()

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds that the simulation took from one to the other; a card takes others."""
        if self._at is None or end._at is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return max(1e3 * (end._at - self._at), _LEAST_MS)

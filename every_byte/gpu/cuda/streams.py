"""`torch.cuda.Stream` and `torch.cuda.Event` for a program that finds a simulated GPU as "cuda"."""

import ctypes
import time
from typing import Any, Self

import torch

from every_byte.gpu.memory.as_cuda import AsCuda
from every_byte.gpu.patches import streams

_CUDA: int = torch._C._autograd.DeviceType.CUDA.value
_LEAST_MS = 1e-3  # no program divides by 0 on a card
_PRIORITIES = 0, -3  # what PyTorch uses of CUDA's, the lowest and the highest


class Stream(streams.Stream):
    """A stream of the simulated GPU, under the names that CUDA's have."""

    _priority = 0

    def __new__(cls, device: Any = None, priority: int = 0, stream_id: int | None = None, **_rest: Any) -> Self:
        """A new one, or that of a number. Raises: RuntimeError for another GPU than the simulated one."""
        made = super().__new__(cls, number=stream_id)
        if device is not None:
            made._as_cuda.must_be_here(torch.device("cuda", torch.cuda._utils._get_device_index(device, True)))
        made._priority = max(_PRIORITIES[1], min(_PRIORITIES[0], priority))
        return made

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    @property
    def _as_cuda(self) -> AsCuda:
        place = self.memory.as_cuda
        assert place is not None  # such streams are made where it stands for "cuda"
        return place

    @property
    def device(self) -> torch.device:  # type: ignore[override]  # PyTorch's cannot be written either
        """Where it is, as a program is told."""
        return self._as_cuda.device

    @property
    def device_index(self) -> int:  # type: ignore[override]  # nor can this
        """The number of its GPU."""
        return self._as_cuda.index

    @property
    def device_type(self) -> int:  # type: ignore[override]  # nor this
        """PyTorch's number for CUDA."""
        return _CUDA

    @property
    def cuda_stream(self) -> int:
        """What CUDA's own functions know it by: 0 for the first, as there."""
        return self.number

    native_handle = cuda_stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.cuda_stream

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_stream)

    @property
    def priority(self) -> int:
        """What it was made with, within what there is; all run alike."""
        return self._priority

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The lowest and the highest, as on a card."""
        return _PRIORITIES

    def record_event(self, event: Any = None) -> Any:  # an `Event`
        """The present, as an event."""
        event = event or Event()
        event.record(self)
        return event


class ExternalStream(Stream):
    """A stream that another library has made: known by the number that it is given here."""

    def __new__(cls, stream_ptr: int, device: Any = None, **_rest: Any) -> Self:
        """That of a number which a stream has said by `cuda_stream`."""
        return super().__new__(cls, device, stream_id=stream_ptr)


class Event(streams.Event):
    """A moment, which has passed as soon as it is recorded. What lies between two is the simulation's own time."""

    def __init__(self, device: object = None, enable_timing: bool = False, **_settings: Any) -> None:
        """Takes what PyTorch's takes."""
        super().__init__()
        self._is_timed = enable_timing
        self._at: float | None = None
        self._stream: torch.Stream | None = None

    def __repr__(self) -> str:
        return "<torch.cuda.Event uninitialized>" if self._at is None else f"<torch.cuda.Event {self.cuda_event:#x}>"

    @property
    def device(self) -> torch.device | None:
        """Where it was recorded."""
        return None if self._stream is None else self._stream.device

    @property
    def cuda_event(self) -> int:
        """What CUDA's own functions know it by."""
        return 0 if self._at is None else id(self)

    @property
    def event_id(self) -> int:
        """The same, of PyTorch's own."""
        return self.cuda_event

    def record(self, stream: torch.Stream | None = None) -> None:
        """Note the time."""
        self._at, self._stream = time.perf_counter(), stream or torch.cuda.current_stream()

    def elapsed_time(self, end: Any) -> float:  # another `Event`
        """Milliseconds that the simulation took from one to the other; a card takes others.

        Raises: ValueError, as PyTorch does, for events that keep no time, or have none yet.
        """
        if not (self._is_timed and end._is_timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._at is None or end._at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        milliseconds: float = 1e3 * (end._at - self._at)
        return max(milliseconds, _LEAST_MS)

    def ipc_handle(self) -> bytes:
        """Refused. Raises: NotImplementedError."""
        raise NotImplementedError(
            "a simulated GPU is seen by its own process alone: an event has no handle for others."
        )

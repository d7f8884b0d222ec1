"""Records what happens on a live GPU while it is open, with PyTorch's memory history and an observer."""

import platform

import torch

from .live_exchanges import EXCHANGES
from .live_history import History
from .live_owners import owners_of
from .live_trace import LiveTrace
from .owners import Owners
from .simulated.owners import Observer
from .simulated.watching import WATCHING, watch


class Recording:
    """PyTorch's memory history of one GPU, and an observer of whose memory it is, from now until it is closed.

    A history that the program has switched on itself goes on as it is; one of ours is switched off in the end.

    Raises: RuntimeError where PyTorch's allocator keeps no history, as that of cudaMallocAsync.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        torch.cuda.init()
        self.device = device
        self._is_ours = not torch._C._cuda_isHistoryEnabled()
        self._skip = 0
        if self._is_ours:
            stacks = "all" if platform.machine() in ("x86_64", "AMD64") else "python"
            torch.cuda.memory._record_memory_history(context="alloc", stacks=stacks)
        else:
            self._skip = len(self._entries())
        self.trace = LiveTrace(name, device, recording=self)
        self.memory = self.trace.memory
        self._history = History(segments_of(device))
        self.observer = Observer(self.memory)
        self._error: RuntimeError | None = None
        self.is_open = True
        self.memory.open()
        self.observer.open()
        WATCHING.open()
        EXCHANGES.open()
        watch.append(self)
        self.trace.look = self.observer.look

    def close(self) -> None:
        """Read what there is to read, and leave PyTorch as it was; an error is told when the trace is asked."""
        try:
            self.read()
        except RuntimeError as error:
            self._error = error
        self.trace.look = None
        self.is_open = False
        watch.remove(self)
        EXCHANGES.close()
        WATCHING.close()
        self.observer.close()
        self.memory.close()
        if self._is_ours:
            torch.cuda.memory._record_memory_history(enabled=None)

    def must_be_open(self, what: str) -> None:
        """Raises: RuntimeError where it is closed."""
        if not self.is_open:
            raise RuntimeError(f"the live GPU must be open: {what} was asked of its trace, and it is closed.")

    def read(self) -> History:
        """The history up to now; once closed, up to then."""
        if self._error is not None:
            raise self._error
        if self.is_open and not self._history.ends_at(counters := self.memory.now()):
            self._history.read(self._entries()[self._skip :])
            self._history.must_agree(list(self.memory.counted))
            if counters.tick == self.memory.now().tick:  # no other thread allocates meanwhile
                self._history.must_end_at(counters)
        return self._history

    def _entries(self) -> list[dict]:
        return torch.cuda.memory._snapshot()["device_traces"][self.device.index]

    def owners(self, after: list[int]) -> Owners:
        """What was observed, by the events' numbers; `after[i]`: the position behind the first i of them and marks."""
        return owners_of(self.memory, self._history, after)


class Glance:
    """What is in use on a live GPU at one instant, without a history: whose it is shows by looking around."""

    def __init__(self, name: str, device: torch.device) -> None:
        torch.cuda.init()
        self.trace = LiveTrace(name, device, recording=self)
        self._history = History(segments_of(device))
        observer = Observer(self.trace.memory)
        observer.look(again=True)
        self._history.must_agree(self.trace.memory.counted)

    def read(self) -> History:
        """The blocks as they were."""
        return self._history

    def owners(self, after: list[int]) -> Owners:
        """What was observed, by the blocks' numbers."""
        return owners_of(self.trace.memory, self._history, after)


def segments_of(device: torch.device) -> list[dict]:
    """The segments of one GPU of `torch.cuda.memory_snapshot`."""
    return [segment for segment in torch.cuda.memory_snapshot() if segment["device"] == device.index]

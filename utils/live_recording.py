"""Records what happens on a live GPU while it is open: switches PyTorch's memory history and an observer on, and off."""

import platform
import threading
import weakref

import torch

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
        self._thread = threading.current_thread()
        self.trace = LiveTrace(name, device, recording=self)
        self.memory = self.trace.memory
        segments = [one for one in torch.cuda.memory_snapshot() if one["device"] == device.index]
        self._history = History(segments)
        self._read_at = -1
        self.observer = Observer(self.memory)
        self.is_open = True
        self.memory.open()
        self.observer.open()
        WATCHING.open()
        watch.append(self)
        self.trace.look = self.observer.look

    def close(self) -> None:
        """Read what there is to read, and leave PyTorch as it was."""
        self.read()
        self.trace.look = None
        self.is_open = False
        watch.remove(self)
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
        if self.is_open:
            tick = self.memory.position() - len(self.memory.marks)
            if tick != self._read_at:
                self._history.read(self._entries()[self._skip :])
                self._history.must_agree(list(self.memory.counted))
                self._read_at = tick
        return self._history

    def _entries(self) -> list[dict]:
        return torch.cuda.memory._snapshot()["device_traces"][self.device.index]

    def owners(self, after: list[int]) -> Owners:
        """What was observed, by the events' numbers; `after[i]` is the position behind the first i of them and marks."""
        found = owners_of(self.memory, self.read(), after)
        if self._thread is threading.main_thread():
            found.elsewhere = {number for number, made in enumerate(self._history.makers) if made.is_elsewhere}
        return found

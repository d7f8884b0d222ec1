"""The machine's own GPU, under the names that a simulated one has too; every figure of it is PyTorch's, measured."""

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any, Self

import torch

from every_byte.gpu.dispatch.autocast import autocast
from every_byte.gpu.memory.attachment import set_aside
from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.memory.versions import rules_here
from every_byte.gpu.patches.backward import watch
from every_byte.ledger.trace import Trace

from .machine import this_machine
from .recording import Glance, NoHistory, Recording

LIVE = "live"
"""The name by which `open_gpu` and explorers know this machine's own GPU."""


class NoTrace(RuntimeError, AttributeError):
    """A live GPU was asked for a trace that it does not have: to `hasattr` and `getattr`, it has no such attribute."""


class LiveGPU:
    """This machine's own GPU, under the same names: every figure is PyTorch's, measured.

    Without an index it is PyTorch's current one, as `torch.cuda.set_device` has it; in a process that torchrun started
    and that has not chosen, the one of its local rank, unless it sees one alone.

    As a scope, `with LiveGPU() as gpu:`, and opened by `open_gpu("live")`, it is the innermost GPU: simulated ones that
    are open on this thread are set aside meanwhile, so that PyTorch works on it as if there were none. Its `trace` has
    what happens from then on. An allocation that is recorded takes some 30 microseconds more, and of the host's memory
    some 2 kB, and 5 more once it is read; the first reading, when the scope ends at the latest, takes some seconds.
    With `traced=False` there is no trace.

    Raises: RuntimeError if PyTorch sees no GPU here, or not that one; ValueError for a device of another kind.
    Example: with LiveGPU() as gpu: print(gpu.memory_allocated())
    """

    origin = "measured"
    is_open = True

    def __init__(self, index: int | str | torch.device | None = None, *, traced: bool = True) -> None:
        if reason := this_machine().reason:
            raise RuntimeError(
                f'a live GPU needs a CUDA build of PyTorch and a GPU. {reason} Use open_gpu("a100-80gb") or another '
                "simulated GPU."
            )
        if index is not None and not isinstance(index, int):
            device = torch.device(index)
            if device.type != "cuda":
                raise ValueError(f'a live GPU is a CUDA device, as "cuda:0", or its index: got {device}.')
            index = device.index  # None of "cuda" alone
        self.device = torch.device("cuda", _own_index() if index is None else index)
        if not 0 <= self.device.index < torch.cuda.device_count():
            raise RuntimeError(
                f"index must be that of a GPU here, 0 to {torch.cuda.device_count() - 1}: got {self.device.index}; "
                "LiveGPU() takes PyTorch's current one."
            )
        self.name = torch.cuda.get_device_name(self.device)
        self._scope: ExitStack | None = None
        self._thread = 0
        self._traced = traced
        self._trace: Trace | None = None
        self._no_trace = (
            "a live GPU has a trace once it is opened as a scope, `with LiveGPU() as gpu:`, or by "
            f'`gpu = open_gpu("{LIVE}")`: {self.name} is not, or with traced=False; Ledger.now(gpu) needs none.'
        )

    @property
    def spec(self) -> GPUSpec:
        """This GPU as `SimulatedGPU` takes it, to set a simulation beside a measurement."""
        gpu = self.get_device_properties()
        return GPUSpec(
            self.name,
            self.name,
            (gpu.major, gpu.minor),
            gpu.total_memory,
            gpu.multi_processor_count,
            gpu.max_threads_per_multi_processor,
            rules=rules_here(),
            l2_bytes=getattr(gpu, "L2_cache_size", 0),
        )

    def __repr__(self) -> str:
        return f"LiveGPU({self.name!r}, {self.memory_allocated():,d} bytes allocated)"

    def __enter__(self) -> Self:
        if self._scope is not None:
            raise RuntimeError(f"a live GPU can be opened once at a time: {self.name} is open already; close it first.")
        with ExitStack() as scope:
            scope.enter_context(set_aside())
            _open.gpus.append(self)
            scope.callback(_open.gpus.remove, self)
            if self._traced:
                self._record(scope)
            self._scope = scope.pop_all()
        self._thread = threading.get_ident()
        return self

    def _record(self, scope: ExitStack) -> None:
        try:
            recording = Recording(self.name, self.device)
        except NoHistory as error:
            self._trace, self._no_trace = None, str(error)
            return
        self._trace = recording.trace
        scope.callback(recording.close)

    def look_around(self) -> Trace:
        """Its trace, with the owners of what is in use now; where none is recorded, what looking around tells."""
        if self._trace is None or self._trace.look is None:
            return Glance(self.name, self.device).trace
        self._trace.look(again=True)
        return self._trace

    @property
    def trace(self) -> Trace:
        """Every allocation and free on it while it is open as a scope, in order, by PyTorch's own memory history.

        Raises: RuntimeError where it was never opened, and where PyTorch keeps no history.
        """
        if self._trace is None:
            raise NoTrace(self._no_trace)
        return self._trace

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the scope; simulated GPUs that it had set aside count again.

        Raises: RuntimeError on another thread than the one that opened it, and while another GPU is open inside.
        """
        if self._scope is None:
            return
        if self._thread != threading.get_ident():
            raise RuntimeError(f"a live GPU must be closed on the thread that opened it: {self.name}; do so there.")
        if attached() or _open.gpus[-1] is not self:
            inner = attached()[-1].memory.spec.name if attached() else f"the {_open.gpus[-1].name} opened after it"
            raise RuntimeError(f"open GPUs must be closed innermost first: close {inner} before {self.name}.")
        scope, self._scope = self._scope, None
        scope.close()

    def load_libraries(self) -> None:
        """Take this thread's cuBLAS workspace now, so that it does not count in what is measured next."""
        with torch.cuda.device(self.device):
            torch.cuda.current_blas_handle()

    # what torch.cuda answers; SimulatedGPU says what each figure is

    def memory_allocated(self) -> int:
        return torch.cuda.memory_allocated(self.device)

    def max_memory_allocated(self) -> int:
        return torch.cuda.max_memory_allocated(self.device)

    def memory_reserved(self) -> int:
        return torch.cuda.memory_reserved(self.device)

    def max_memory_reserved(self) -> int:
        return torch.cuda.max_memory_reserved(self.device)

    def memory_stats(self) -> dict[str, int]:
        return torch.cuda.memory_stats(self.device)

    def mem_get_info(self) -> tuple[int, int]:
        return torch.cuda.mem_get_info(self.device)

    def reset_peak_memory_stats(self) -> None:
        return torch.cuda.reset_peak_memory_stats(self.device)

    def reset_accumulated_memory_stats(self) -> None:
        reset = partial(torch.cuda.reset_accumulated_memory_stats, self.device)
        for recording in watch:
            if recording.device == self.device:
                reset = partial(recording.memory.counts_anew, reset)
        return reset()

    def set_per_process_memory_fraction(self, fraction: float) -> None:
        torch.cuda.set_per_process_memory_fraction(fraction, self.device)

    def get_per_process_memory_fraction(self) -> float:
        return torch.cuda.get_per_process_memory_fraction(self.device)

    def set_allocator_settings(self, settings: str) -> None:
        torch._C._accelerator_setAllocatorSettings(settings)

    def Stream(self, priority: int = 0) -> torch.cuda.Stream:
        return torch.cuda.Stream(self.device, priority=priority)

    def Event(self, **settings: bool) -> torch.cuda.Event:
        return torch.cuda.Event(**settings)

    def stream(self, which: torch.Stream | None) -> AbstractContextManager[Any]:
        return torch.cuda.stream(which)  # type: ignore[arg-type]  # a stream here is one of torch.cuda's

    def current_stream(self) -> torch.cuda.Stream:
        return torch.cuda.current_stream(self.device)

    def autocast(
        self, dtype: torch.dtype, *, enabled: bool = True, cache_enabled: bool | None = None
    ) -> AbstractContextManager[Any]:
        return autocast(dtype, enabled, cache_enabled)

    def synchronize(self) -> None:
        return torch.cuda.synchronize(self.device)

    def get_device_properties(self) -> Any:
        return torch.cuda.get_device_properties(self.device)

    def memory_snapshot(self) -> list[dict[str, Any]]:
        return [segment for segment in torch.cuda.memory_snapshot() if segment["device"] == self.device.index]

    def empty_cache(self) -> None:
        torch.cuda.empty_cache()


class _Open(threading.local):
    """The live GPUs that are open as scopes on this thread, the innermost last."""

    def __init__(self) -> None:
        self.gpus: list[LiveGPU] = []


_open = _Open()


def innermost_live() -> LiveGPU | None:
    """The live GPU that is the innermost one open as a scope on this thread, if one is."""
    return _open.gpus[-1] if _open.gpus and not attached() else None


def _own_index() -> int:
    """PyTorch's current GPU, or that of the local rank where torchrun started this process and nobody has chosen.

    Who has chosen GPU 0 there cannot be told from who has chosen none.
    """
    current, local_rank = torch.cuda.current_device(), int(os.environ.get("LOCAL_RANK", 0))
    return local_rank if current == 0 and 0 < local_rank < torch.cuda.device_count() else current


@contextmanager
def cleared(*, traced: bool = True) -> Iterator[LiveGPU]:
    """This machine's own GPU as a scope, with what nothing refers to gone, before and after; `traced` as in LiveGPU.

    Of what earlier programs left in the process, garbage, cuBLAS workspaces and cached segments go; what something
    still refers to stays.
    """
    gpu = LiveGPU(traced=traced)
    _clear(gpu)
    with gpu:
        try:
            yield gpu
        finally:
            _clear(gpu)


def _clear(gpu: LiveGPU) -> None:
    gc.collect()
    gpu.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    gpu.empty_cache()

"""The GPU that an experiment runs on: a simulated one, or the machine's own, under the same names."""

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

import torch

from .live_recording import Glance, Recording
from .machine import this_machine
from .simulated.attachment import attached, set_aside
from .simulated.autocast import autocast
from .simulated.gpu import SimulatedGPU
from .simulated.specs import SPECS, GPUSpec, find_spec
from .simulated.watching import watch
from .trace import Trace

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
    what happens from then on: recording that takes some 30 microseconds an allocation, the first reading of it, when
    the scope ends at the latest, some seconds. With `traced=False` there is none.

    Raises: RuntimeError if PyTorch sees no GPU here, or not that one.
    """

    origin = "measured"
    is_open = True

    def __init__(self, index: int | None = None, *, traced: bool = True) -> None:
        if reason := this_machine().reason:
            raise RuntimeError(
                f'a live GPU needs a CUDA build of PyTorch and a GPU. {reason} Use open_gpu("a100-80gb") or another '
                "simulated GPU."
            )
        self.device = torch.device("cuda", _own_index() if index is None else index)
        if not 0 <= self.device.index < torch.cuda.device_count():
            raise RuntimeError(
                f"index must be that of a GPU here, 0 to {torch.cuda.device_count() - 1}: got {self.device.index}; "
                "LiveGPU() takes PyTorch's current one."
            )
        self.name = torch.cuda.get_device_name(self.device)
        self._scope: ExitStack | None = None
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
        )

    def __repr__(self) -> str:
        return f"LiveGPU({self.name!r}, {self.memory_allocated():,d} bytes allocated)"

    def __enter__(self) -> "LiveGPU":
        if self._scope is not None:
            raise RuntimeError(f"a live GPU can be opened once at a time: {self.name} is open already.")
        with ExitStack() as scope:
            scope.enter_context(set_aside())
            _live.gpus.append(self)
            scope.callback(_live.gpus.remove, self)
            if self._traced:
                self._record(scope)
            self._scope = scope.pop_all()
        return self

    def _record(self, scope: ExitStack) -> None:
        try:
            recording = Recording(self.name, self.device)
        except (RuntimeError, AttributeError) as error:  # an allocator, or a build, that keeps no history
            self._trace, self._no_trace = None, f"PyTorch keeps no memory history here: {error}"
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

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        """Leave the scope; simulated GPUs that it had set aside count again."""
        scope, self._scope = self._scope, None
        if scope is not None:
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

    def autocast(self, dtype: torch.dtype, *, enabled: bool = True, cache_enabled: bool | None = None):
        return autocast(dtype, enabled, cache_enabled)

    def synchronize(self) -> None:
        return torch.cuda.synchronize(self.device)

    def get_device_properties(self):
        return torch.cuda.get_device_properties(self.device)

    def memory_snapshot(self) -> list[dict]:
        return [segment for segment in torch.cuda.memory_snapshot() if segment["device"] == self.device.index]

    def empty_cache(self) -> None:
        torch.cuda.empty_cache()


class _Live(threading.local):
    """The live GPUs that are open as scopes on this thread, the innermost last."""

    def __init__(self):
        self.gpus: list[LiveGPU] = []


_live = _Live()
_opened = threading.local()


def _own_index() -> int:
    """PyTorch's current GPU, or that of the local rank where torchrun started this process and nobody has chosen."""
    current, local_rank = torch.cuda.current_device(), int(os.environ.get("LOCAL_RANK", 0))
    return local_rank if current == 0 and 0 < local_rank < torch.cuda.device_count() else current


@contextmanager
def cleared(*, traced: bool = True) -> Iterator[LiveGPU]:
    """This machine's own GPU as a scope, with what nothing refers to gone, before and after; `traced` as in LiveGPU.

    Of what earlier programs left in the process, garbage, cuBLAS workspaces and cached segments go; what something
    still refers to stays.
    """
    with LiveGPU(traced=traced) as gpu:
        _clear(gpu)
        try:
            yield gpu
        finally:
            _clear(gpu)


def _clear(gpu: LiveGPU) -> None:
    gc.collect()
    gpu.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    gpu.empty_cache()


def fresh_gpu(name: str | GPUSpec, *, traced: bool = True):
    """A GPU for one account, as a scope: a simulated one of its own, or for `LIVE` this machine's, `cleared`.

    A live one records no trace with `traced=False`, which takes it a few seconds the first time.

    Raises: ValueError for an unknown name; RuntimeError for `LIVE` without a GPU.
    """
    return cleared(traced=traced) if name == LIVE else SimulatedGPU(name)


def gpu_names() -> list[str]:
    """The names that `fresh_gpu` knows here: those of the simulated GPUs and, where this machine has one, `LIVE`."""
    return [*SPECS, *([] if this_machine().reason else [LIVE])]


def spec_of(name: str | GPUSpec) -> GPUSpec:
    """The spec of the GPU that `fresh_gpu` would open.

    Raises: as `fresh_gpu`.
    """
    if isinstance(name, GPUSpec):
        return name
    return LiveGPU().spec if name == LIVE else find_spec(name)


def open_gpu(name: str | GPUSpec = "a100-80gb") -> SimulatedGPU | LiveGPU:
    """Open a GPU for the rest of a notebook, and close the one that was opened so before.

    `"live"` is this machine's own GPU; any other name is simulated. Running the cell again starts afresh: tensors made
    before stay on the closed GPU until their names are gone, and the new one refuses them.

    Raises: ValueError for an unknown name; RuntimeError for "live" without a GPU.
    """
    gpu = LiveGPU() if name == LIVE else SimulatedGPU(name)
    before = getattr(_opened, "gpu", None)
    if before is not None:
        before.close()
    with suppress(AttributeError):
        del _opened.gpu
    gpu.__enter__()
    _opened.gpu = gpu
    return gpu


def current_gpu() -> SimulatedGPU | LiveGPU:
    """The innermost GPU open on this thread: a simulated one, or else the machine's own.

    Raises: RuntimeError if there is neither.
    """
    if attached():
        return attached()[-1].owner
    if _live.gpus:
        return _live.gpus[-1]
    if torch.cuda.is_available():
        return LiveGPU()
    raise RuntimeError('no GPU is open on this thread: call open_gpu("a100-80gb") first, or name one with gpu=.')

"""The simulated GPU as a reader holds it: opened and closed, and asked what `torch.cuda` would be asked."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any, Self

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from every_byte.gpu.cuda.gates import CUDA_GATES
from every_byte.gpu.dispatch.autocast import autocast
from every_byte.gpu.dispatch.dispatch import Dispatch
from every_byte.gpu.evidence import Evidence
from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.as_cuda import AsCuda
from every_byte.gpu.memory.assumptions import Assumptions
from every_byte.gpu.memory.environment import Environment, Settings
from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.physical import META
from every_byte.gpu.memory.properties import DeviceProperties
from every_byte.gpu.memory.settings import checked_fraction
from every_byte.gpu.memory.snapshot_settings import snapshot_settings
from every_byte.gpu.memory.specs import GPUSpec, simulated_spec
from every_byte.gpu.memory.storages import Memory
from every_byte.gpu.memory.versions import say_once_of
from every_byte.gpu.observer.observer import Observer
from every_byte.gpu.patches import streams
from every_byte.gpu.patches.gates import GATES
from every_byte.gpu.patches.numbering import Numbering
from every_byte.ledger.deep_graphs import let_go
from every_byte.ledger.trace import Trace


class SimulatedGPU:
    """A GPU on which PyTorch programs run without one: nothing is computed, every byte is accounted.

    Use it as a scope, or through `open_gpu` in a notebook. Tensors made with `device=gpu.device` are then allocated in
    a model of PyTorch's caching allocator, operation by operation, on the thread that opened it; the innermost counts.

    `settings` are those of PyTorch's allocator: what would stand in PYTORCH_ALLOC_CONF, as "expandable_segments:True",
    or several variables by name. They are not read from the environment. `holding` are the segments that are there from
    the start, as `memory_snapshot` of another GPU tells them: a real one, say, whose next program is to be simulated.
    With `cuda=True` it stands for "cuda" while it is open, and programs run unmodified: `device="cuda"`, `.cuda()`,
    `torch.cuda`, `torch.accelerator` and what tensors say of themselves mean it; the machine's own GPUs are out of
    reach, and "meta" means PyTorch's meta tensors, which count nowhere. `torch` is the version of PyTorch whose rules
    it follows (by default the book's), `context_bytes` its context's size ("863MiB"). `assume` says how large what
    depends on values is (memory/assumptions.py). `lines`: it notes call stacks.

    Counts: what the CUDA build of PyTorch `spec.torch_version` takes from the allocator; not the CUDA context.
    Raises: ValueError for an unknown name or setting; RuntimeError out of order; torch.OutOfMemoryError as on CUDA.
    Example: with SimulatedGPU("a100-80gb") as gpu: x = torch.ones(256, device=gpu.device)
    """

    origin = "simulated"

    def __init__(
        self,
        name: str | GPUSpec = "a100-80gb",
        *,
        settings: Settings = "",
        holding: Sequence[Mapping[str, Any]] = (),
        cuda: bool | AsCuda = False,
        torch: str = "",
        context_bytes: int | str | None = None,
        assume: Iterable[str] = (),
        lines: bool = False,
    ) -> None:
        self.spec = simulated_spec(name, torch, context_bytes)
        self._memory = Memory(self.spec, Environment.read(settings), AsCuda() if cuda is True else cuda or None)
        self._memory.assumptions = Assumptions.read(assume)
        self._memory.adopt(holding)
        self._mode = Dispatch(self._memory, owner=self)
        self._mode.observer = self._observer = Observer(self._memory)
        self._mode.numbering = Numbering()
        self._memory.labels.keep_stacks(lines)
        self._thread: int | None = None

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed"
        return f"SimulatedGPU({self.spec.name!r}, {state}, {self.memory_allocated():,d} bytes allocated)"

    @property
    def is_open(self) -> bool:
        """Whether operations on meta tensors count here."""
        return self._thread is not None

    def __enter__(self) -> Self:
        if self.is_open:
            raise RuntimeError(f"a GPU can be opened once at a time: {self.spec.name} is open already; close it first.")
        say_once_of(self.spec)
        with ExitStack() as undo:  # undoes what is done so far if something fails
            for part in (GATES, self._memory.labels, self._observer):
                part.open()
                undo.callback(part.close)
            self._memory.trace.look = self._observer.look
            undo.enter_context(self._mode)
            if self._memory.as_cuda is not None:
                CUDA_GATES.open()
            undo.pop_all()
        self._thread = threading.get_ident()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Look around once more and detach from PyTorch: its figures stay, and its tensors count nowhere now."""
        if not self.is_open:
            return
        if self._thread != threading.get_ident():
            raise RuntimeError(f"a GPU must be closed on the thread that opened it: {self.spec.name}; do so there.")
        if not attached() or attached()[-1] is not self._mode:
            inner = attached()[-1].memory.spec.name if attached() else "the live one"
            raise RuntimeError(f"open GPUs must be closed innermost first: close {inner} before {self.spec.name}.")
        if (top := _get_current_dispatch_mode()) is not self._mode:
            raise RuntimeError(f"modes must be left innermost first: {type(top).__name__} is on: leave it first.")
        self._thread = None
        if self._memory.as_cuda is not None:
            CUDA_GATES.close()
        self._mode.__exit__(None, None, None)
        for part in (self._observer, self._memory.labels, GATES):
            part.close()
        self._memory.trace.look = None
        self._observer.look()

    @property
    def device(self) -> torch.device:
        """Where to put tensors: to PyTorch `meta`, of a GPU that stands for "cuda" "cuda:0"; the innermost one counts.

        Raises: RuntimeError if this GPU is not the one that would count them.
        """
        self._must_be_open()
        inner = attached()[-1].owner if attached() else None
        if inner is None and self._thread != threading.get_ident():
            rule = f"a simulated GPU counts on the thread that opened it: {self.name} was asked on another"
            raise RuntimeError(f'{rule}; open one there, `with SimulatedGPU("{self.name}") as gpu:`.')
        if inner is not self:
            rule, it = "only the innermost open GPU counts", inner.name if inner else "a live one"
            raise RuntimeError(f"{rule}: {self.name} was asked, {it} is it; close that one first.")
        return META if self._memory.as_cuda is None else self._memory.as_cuda.device

    def _must_be_open(self) -> None:
        if not self.is_open:
            way_out = f'use `with SimulatedGPU("{self.name}") as gpu:` or `gpu = open_gpu("{self.name}")`.'
            raise RuntimeError(f"a simulated GPU must be open: {self.name} is not; {way_out}")

    # what torch.cuda answers, under the same names; and behind it what only a simulation can
    @property
    def name(self) -> str:
        """The spec's name, as `open_gpu` takes it."""
        return self.spec.name

    @property
    def _allocator(self) -> CachingAllocator:
        return self._settled().allocator

    def _settled(self) -> Memory:
        let_go()
        self._memory.settle()
        return self._memory

    def memory_allocated(self) -> int:
        """Bytes in blocks that are in use, each counted whole."""
        return self._allocator.allocated_bytes

    def max_memory_allocated(self) -> int:
        """The most that `memory_allocated` has been since the start or the last reset."""
        return self._allocator.max_allocated_bytes

    def memory_reserved(self) -> int:
        """Bytes in segments: what the allocator holds, in use or not."""
        return self._allocator.reserved_bytes

    def max_memory_reserved(self) -> int:
        """The most that `memory_reserved` has been since the start or the last reset."""
        return self._allocator.max_reserved_bytes

    def memory_stats(self) -> dict[str, int]:
        """The allocator's counters under the keys of `torch.cuda.memory_stats`.

        Counts: all as on CUDA, but for how many holes came, went and were at most, `inactive_split.*.allocated`,
                `.freed` and `.peak`: they alone depend on the order of frees that follow one another directly.
        """
        missing, stats = "num_oom_rejections", self._allocator.memory_stats()
        return stats if self.spec.rules.counts_rejections else {key: n for key, n in stats.items() if key != missing}

    def memory_snapshot(self) -> list[dict[str, Any]]:
        """The segments and their blocks in the format of `torch.cuda.memory_snapshot`."""
        with self._memory.undisturbed() as allocator:
            return allocator.memory_snapshot()

    def mem_get_info(self) -> tuple[int, int]:
        """Free and total bytes of the GPU. The CUDA context is not free; its size is an assumption of the spec."""
        return self.spec.allocator_bytes - self._allocator.taken_bytes, self.spec.total_bytes

    def reset_peak_memory_stats(self) -> None:
        """Start every peak again from the present."""
        self._allocator.reset_peak_memory_stats()

    def reset_accumulated_memory_stats(self) -> None:
        """Start every count of what was allocated and freed again from 0."""
        self._allocator.reset_accumulated_memory_stats()

    def empty_cache(self) -> None:
        """Give segments in which nothing is in use back to the driver."""
        with self._memory.undisturbed() as allocator:
            self._memory.trace.emptied.append(len(self._memory.trace))
            allocator.empty_cache()

    def set_per_process_memory_fraction(self, fraction: float) -> None:
        """Let the allocator take no more than this fraction of the GPU's memory. Raises: as `torch.cuda`'s does."""
        self._memory.read_environment()
        self._allocator.set_memory_fraction(checked_fraction(fraction))

    def get_per_process_memory_fraction(self) -> float:
        """The fraction that was set, or 1."""
        return self._allocator.memory_fraction

    def set_allocator_settings(self, settings: str) -> None:
        """Follow other settings from now on, as by `torch.cuda.memory._set_allocator_settings`."""
        self._memory.read_environment()
        self._allocator.set_settings(settings)
        self._memory.settings = replace(self._memory.settings, allocator=self._allocator.settings)
        self._memory.trace.allocator_settings = snapshot_settings(self._allocator.settings)

    @property
    def settings(self) -> str:
        """What of PyTorch's settings this GPU follows, as a shell would be told; "" for the defaults."""
        return str(self._memory.settings)

    def Stream(self, priority: int = 0) -> streams.Stream:
        """A stream of this GPU, which has free blocks of its own; as `torch.cuda.Stream`."""
        self._must_be_open()
        return streams.Stream(priority=priority)

    def Event(self, **settings: bool) -> streams.Event:
        """A moment in a stream, which has always passed; as `torch.cuda.Event`."""
        return streams.Event(**settings)

    def stream(self, which: torch.Stream | None) -> AbstractContextManager[Any]:
        """A context in which programs allocate in that stream; as `torch.cuda.stream`."""
        self._must_be_open()
        return streams.stream(which)

    def current_stream(self) -> streams.Stream:
        """The stream in which a program allocates now."""
        self._must_be_open()
        return streams.current_stream()

    def autocast(
        self, dtype: torch.dtype, *, enabled: bool = True, cache_enabled: bool | None = None
    ) -> torch.autocast:
        """A context in which operators cast as under `torch.autocast("cuda", dtype=dtype)`."""
        return autocast(dtype, enabled, cache_enabled)

    def synchronize(self) -> None:
        """Wait for the GPU: here there is nothing to wait for."""

    def get_device_properties(self) -> DeviceProperties:
        """What the GPU is."""
        return DeviceProperties.of(self.spec)

    @property
    def trace(self) -> Trace:
        """Every allocation and free so far, in order."""
        return self._settled().trace

    def look_around(self) -> Trace:
        """Its trace, with the owners of what is in use now; once it is closed, of what was then."""
        if (look := self.trace.look) is not None:
            look(again=True)
        return self.trace

    @property
    def unmodelled(self) -> frozenset[str]:
        """Operations that ran here whose temporary memory is not known; `evidence` says how far to trust the rest."""
        return frozenset(self._memory.trace.notes.unmodelled)

    @property
    def evidence(self) -> Evidence:
        """Which of the operators that ran here recordings of the CUDA build hold, on this architecture or another."""
        return Evidence.of(self._memory.trace.notes.operators, self.spec)

    @property
    def values_read(self) -> tuple[str, ...]:
        """The lines of the program that read a value which is not known, and got zeros; on a card they get others."""
        return tuple(self._memory.trace.notes.values_read)

    @property
    def operations(self) -> frozenset[str]:
        """Operations that ran here, by name."""
        return frozenset(name.partition(" ")[0] for name in self._memory.trace.notes.operators)

    def load_libraries(self) -> None:
        """Take this thread's cuBLAS workspace now, so that it does not count in what is measured next."""
        self._must_be_open()
        self._memory.operation = "load_libraries"
        self._memory.use_blas()

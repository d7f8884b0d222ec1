"""A live GPU's memory as an observer asks it: handles of tensors, instants, and what ran then; no history is read."""

import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch._C._autograd import _get_sequence_nr
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle

from every_byte.gpu.dispatch.autocast import DTYPES
from every_byte.gpu.memory.contents import Root, known_storages
from every_byte.gpu.memory.labels import Labels
from every_byte.gpu.memory.modes import attached
from every_byte.ledger.attribution import Owners
from every_byte.ledger.trace import Trace

from .backward_order import BackwardOrder, converted_by
from .history import Counters


class _Handle(weakref.ref[torch.UntypedStorage]):
    """A weak reference to a storage, which knows its place; a storage that is resized gets a handle for each place."""

    __slots__ = ("number", "key", "address", "memory")

    number: int
    key: int
    address: int
    memory: "LiveMemory"


def _storage_died(handle: _Handle) -> None:
    memory = handle.memory
    if memory.handles.get(handle.key) is handle:
        del memory.handles[handle.key]
    memory.owners.live.discard(handle.number)


class LiveMemory:
    """Notes, for the observer of a live GPU, instants and the places of tensors, so that a history can tell the rest.

    A position is the number of allocations, frees and marks so far. A handle stands for what lay at
    `places[handle]`, an address at a tick: its number in the trace shows when the history is read. Nothing here refers
    to a tensor.

    Counts: what happens on the thread that made it, and on autograd's while a backward of this one is under way; not
            while a simulated GPU is open inside.
    """

    def __init__(self, device: torch.device, trace: Trace, start: Counters) -> None:
        self.device, self.owners, self.labels = device, Owners(), Labels(trace)
        self.owners.roots = self.labels.modules.roots
        self._trace = trace
        self.handles: dict[int, _Handle] = {}
        self.places: list[tuple[int, int]] = []
        self.starts: list[tuple[int, int]] = []
        self.conversions: list[tuple[int, int]] = []
        self.changes: list[tuple[int, str, str, bool]] = []
        self.marks: list[tuple[int, str, str, Counters]] = []
        self.backwards: list[BackwardOrder] = []
        self.n_backwards = 0
        self.start = start
        self.counted: list[Counters] = [self.now()]
        self.sequence_numbers: list[tuple[int, int]] = []
        self._thread = threading.get_ident()
        self.is_of_main_thread = threading.current_thread() is threading.main_thread()
        self._shifts = {self._thread: 0}
        self._instant = threading.local()
        self._lock = threading.RLock()  # a collection may drop a graph, and note it, in here as well
        self._hooks: list[RemovableHandle] = []

    # instants

    def now(self) -> Counters:
        """The allocator's counters now, and how often it acted since the beginning."""
        return Counters.of(torch._C._cuda_memoryStats(self.device.index)).since(self.start)

    @contextmanager
    def at_one_instant(self) -> Iterator[None]:
        """The counters are asked once for all that is noted within."""
        if getattr(self._instant, "counters", None) is not None:
            yield
            return
        self._instant.counters = self._count()
        try:
            yield
        finally:
            self._instant.counters = None

    def _count(self) -> Counters:
        counters = self.now()
        with self._lock:
            if counters.tick > self.counted[-1].tick:
                self.counted.append(counters)
                if threading.get_ident() == self._thread:
                    self.sequence_numbers.append((counters.n_allocations, _get_sequence_nr()))
        return counters

    def counts_anew(self, reset: Callable[[], None]) -> None:
        """Call what sets the allocator's counters to 0, and go on as if it had not."""
        before = self.now()
        reset()
        after = Counters.of(torch._C._cuda_memoryStats(self.device.index))
        self.start = after.since(before)

    def _counters(self) -> Counters:
        return getattr(self._instant, "counters", None) or self._count()

    def position(self) -> int:
        """How many allocations, frees and marks there are."""
        return self._counters().tick + len(self.marks)

    def mark(self, name: str, phase: str) -> None:
        """Name this instant."""
        counters = self._counters()
        self.marks.append((self.position(), name, phase, counters))

    def settle(self) -> None:
        """Nothing is ever under way here: the allocator frees at once."""

    # tensors

    def holds_tensors(self) -> bool:
        """Whether any tensor may lie on this GPU: those that nobody has looked at are not known."""
        return True

    def numbers_of(self, tensor: torch.Tensor) -> list[int]:
        """The handles of what a tensor lies in on this GPU: one, for a plain tensor."""
        if tensor.device.type in ("cpu", "meta"):
            return []
        return [number for storage in known_storages(tensor) if (number := self._number(storage, tensor)) is not None]

    def forget(self, storage: torch.UntypedStorage) -> None:
        """What this storage lies in from now on is another allocation, wherever that is."""
        handle = self.handles.pop(storage._cdata, None)
        if handle is not None:
            self.owners.live.discard(handle.number)

    def _number(self, storage: torch.UntypedStorage, tensor: torch.Tensor) -> int | None:
        if storage.device != self.device or not (address := _address(storage)):
            return None
        known = self.handles.get(storage._cdata)
        if known is not None and known.address == address:
            return known.number
        with self._lock:
            number = len(self.places)
            self.places.append((address, 0))
        self.places[number] = address, self._counters().tick
        handle = _Handle(storage, _storage_died)
        handle.number, handle.key, handle.address, handle.memory = number, storage._cdata, address, self
        self.handles[handle.key] = handle
        self.owners.live.add(number)
        whole = tensor._base if tensor._is_view() and tensor._base is not None else tensor
        self.owners.holds(number, whole.shape, whole.dtype)
        if known is not None:
            self.owners.live.discard(known.number)
            self.owners.moved(known.number, number)
        return number

    def note_computed(self, tensor: torch.Tensor, numbers: list[int]) -> None:
        """Of what a graph keeps: the parameter that it is a conversion of, which autocast may have made in C++."""
        whole = tensor._base if tensor._is_view() and tensor._base is not None else tensor
        if whole.dtype in DTYPES and (leaf := converted_by(whole.grad_fn)) is not None:
            self.conversions += [(number, known) for number in numbers for known in self.numbers_of(leaf)]

    def shift(self) -> int:
        """What tells this thread's nodes from those that autograd's own threads make, which count from 0 as well."""
        return self._shifts.setdefault(threading.get_ident(), len(self._shifts) << 48)

    def concerns(self, tensor: torch.Tensor) -> bool:
        """Whether something on this GPU may have led to a tensor."""
        return tensor.device.type not in ("meta",)

    def note_start(self, number: int) -> None:
        """The gradient that a backward starts from: the history tells whether PyTorch has just made it."""
        self.starts.append((number, self._counters().n_allocations))

    # what runs

    def is_watched(self) -> bool:
        """Whether what runs on this thread is this GPU's."""
        is_ours = threading.get_ident() == self._thread
        return (is_ours or self._is_in_our_backward()) and not attached()

    def _is_in_our_backward(self) -> bool:
        return self.n_backwards > 0 and torch._C._current_graph_task_id() != -1

    def open(self) -> None:
        self.labels.open()
        self._hooks = [
            register_module_forward_pre_hook(self._changed),
            register_module_forward_hook(self._changed, always_call=True),
            register_optimizer_step_pre_hook(self._changed),
            register_optimizer_step_post_hook(self._changed),
        ]

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self.labels.close()

    def _changed(self, *_about: object) -> None:
        if not torch.compiler.is_compiling() and self.is_watched():
            self.note_labels()

    def note_labels(self, phase: str | None = None) -> None:
        """Note that from now on the labels may be other ones."""
        phase = self.labels.phase() if phase is None else phase
        self.changes.append((self.position(), phase, self.labels.modules.current, self.labels.modules.runs_again))

    @contextmanager
    def in_backward(self, roots: list[Root]) -> Iterator[None]:
        """A backward is under way, which autograd may run on threads of its own."""
        order = BackwardOrder(self.position(), roots, self.labels.modules.of_sequence_number)
        self.backwards.append(order)
        self.n_backwards += 1
        self.note_labels(self._trace.phase or "backward")
        try:
            yield
        finally:
            self.n_backwards -= 1
            order.end = self.position()
            self.note_labels()

    def position_at(self, tick: int) -> int:
        """The position of what happened after so many allocations and frees: a mark of that instant comes before."""
        return tick + bisect_right(self.marks, tick, key=lambda mark: mark[3].tick)

    def n_changes(self, position: int) -> int:
        """How often a module, a step or a backward had begun or ended by a position."""
        return bisect_right(self.changes, position, key=lambda change: change[0])

    def labels_at(self, position: int) -> tuple[str, str, bool]:
        """Phase, module, and whether a backward runs that again, of what happened from a position on."""
        i = self.n_changes(position) - 1
        return self.changes[i][1:] if i >= 0 else ("", "", False)


def _address(storage: torch.UntypedStorage) -> int:
    """Where a storage lies; 0 for one that lies nowhere, as a fake tensor's."""
    try:
        return storage.data_ptr()
    except RuntimeError:
        return 0

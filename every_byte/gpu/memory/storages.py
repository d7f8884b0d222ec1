"""A simulated GPU's memory: which storage lies in which block, from its first use to its last reference.

A block is given to a storage and comes back when the last tensor that shares the storage is gone, exactly when CUDA's
would: a weak reference to the storage sees to it. Python's garbage collector may drop such a storage at any moment,
on any thread, also while the allocator is at work; such frees wait until it has finished.
"""

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch._C._autograd import _get_sequence_nr

from every_byte.ledger.attribution import Role
from every_byte.ledger.deep_graphs import let_go, run_of, running_node
from every_byte.ledger.events import NO_ALLOCATION, Event
from every_byte.ledger.trace import Trace
from every_byte.palette import Category

from .allocator import CachingAllocator
from .as_cuda import AsCuda
from .assumptions import Assumptions
from .attachment import attached
from .blocks import Block
from .contents import Root, known_storages
from .environment import VARIABLES, Environment
from .labels import Labels
from .out_of_memory import OutOfMemory, error_of
from .physical import device_of, is_meta
from .records import RECORDS, StorageRecord, storage_died
from .snapshot_settings import snapshot_settings
from .specs import GPUSpec
from .streams import ACROSS_STREAMS, Streams
from .uncached import UncachedAllocator
from .workspaces import Workspaces


def fills_memory() -> bool:
    """Whether a deterministic run fills what it has allocated and not written; PyTorch's default."""
    return torch.are_deterministic_algorithms_enabled() and torch._C._get_deterministic_fill_uninitialized_memory()


class Memory:
    """The allocator of one simulated GPU, the trace of what it did, and the label of what it is doing.

    Counts: requested bytes in the trace; whole blocks in `allocator`.
    Raises: torch.OutOfMemoryError where CUDA would, with the sizes.
    """

    def __init__(self, spec: GPUSpec, settings: Environment | None = None, as_cuda: AsCuda | None = None) -> None:
        self.spec, self.as_cuda, self.assumptions = spec, as_cuda, Assumptions()
        self.trace = Trace("simulated", spec.name, spec.torch_version)
        self._begin(settings or Environment())
        self._unread = None if as_cuda is None else as_cuda.environment
        self.owners, self.labels, self.streams = self.trace.owners, Labels(self.trace), Streams()
        self.owners.observed, self.owners.roots, self._lock = True, self.labels.modules.roots, threading.Lock()
        self.operation, self.running, self._next_number, self.running_from = "", (-1, 0, 0, ""), 0, 0
        self.turn: threading.RLock | None = None  # whose it is, where several threads run on this GPU
        self._waiting: deque[tuple[Block, int]] = deque()

    def _begin(self, settings: Environment) -> None:
        self.settings, spec = settings, self.spec
        self.trace.allocator_settings = snapshot_settings(settings.allocator)
        self.allocator = (CachingAllocator if settings.caches else UncachedAllocator)(
            spec.allocator_bytes, self._segment_changed, settings=settings.allocator, total_bytes=spec.total_bytes
        )
        self._workspaces = Workspaces(settings, spec)

    def read_environment(self) -> None:
        """Follow the process's variables, if this GPU is to, as PyTorch does when its allocator is first used."""
        if self._unread is not None:
            variables, self._unread = self._unread, None
            self._begin(Environment.read({name: variables[name] for name in VARIABLES if name in variables}))

    def adopt(self, segments: Sequence[Mapping[str, object]]) -> None:
        """Begin with what another allocator holds, as a snapshot tells it; whom it serves is not known."""
        allocated_bytes = requested_bytes = 0
        for number, block in enumerate(self.allocator.adopt(segments)):
            event = self._allocation(block.requested_bytes, number, block, Category.UNATTRIBUTED)
            event.allocated_bytes = allocated_bytes = allocated_bytes + block.size_bytes
            event.requested_bytes = requested_bytes = requested_bytes + block.requested_bytes
            self.streams.n_made = max(self.streams.n_made, block.stream)
            self._next_number = self.trace.n_found = number + 1
            self.trace.events.append(event)

    def allocate(self, n_bytes: int, name: str = "") -> tuple[Block, int]:
        """A block of at least `n_bytes`, and the number of the allocation; what no tensor will hold needs a name."""
        let_go()
        if self._unread is not None:
            self.read_environment()
        failure: RuntimeError | None = None
        with self._lock:
            try:
                block = self.allocator.malloc(n_bytes, self.streams.current)
            except OutOfMemory as error:
                failure = error_of(error, self.spec, self.operation, self.settings, self.as_cuda)
            else:
                number = self._next_number
                self.trace.events.append(self._allocation(n_bytes, number, block, name))
                self._next_number += 1
        self.settle()
        if failure is not None:
            self._note_refusal(n_bytes)
            raise failure
        return block, number

    def _note_refusal(self, n_bytes: int) -> None:
        """Note a request for which there is no room, and first whose memory it is now: an error lets go of it."""
        if self.trace.look:
            self.trace.look(again=True)
        node, module = self._maker()
        needed_bytes = self.allocator.settings.round_size(n_bytes)
        told = self.operation, node, self.labels.phase(), "", module
        self.trace.events.append(Event("oom", needed_bytes, NO_ALLOCATION, *told, stack=self.labels.stack()))

    def _maker(self) -> tuple[str, str]:
        """The autograd node that is running, and the module that it or what runs now belongs to."""
        task = torch._C._current_graph_task_id()
        if task != -1 and (running := running_node()):
            if self.running != (run := run_of(running)):
                self.running, self.running_from = run, self._next_number
            if self.streams.is_elsewhere(running):
                attached()[-1].not_modelled("backward across streams", ACROSS_STREAMS)
            return running.name(), self.labels.module_of(running)
        return "", self.labels.modules.current

    def _allocation(self, n_bytes: int, number: int, block: Block, name: str) -> Event:
        (node, module), phase = self._maker(), self.labels.phase()
        self.owners.counts.append(_get_sequence_nr())
        self.owners.live.add(number)
        return Event(
            "alloc", n_bytes, number, self.operation, node, phase, name, module, block.address, block.size_bytes,
            self.allocator.allocated_bytes, self.allocator.requested_bytes, block.stream, self.labels.stack(),
        )  # fmt: skip

    def free(self, block: Block, number: int) -> None:
        """Free a block now, or as soon as the allocator has finished what it is doing."""
        self._waiting.append((block, number))
        self.settle()

    def allocate_and_free(self, *sizes: int) -> None:
        """Take temporaries of these sizes and give them back, last first; also where a later one finds no room."""
        taken = []
        try:
            for n_bytes in filter(None, sizes):
                taken.append(self.allocate(n_bytes))
        finally:
            for block, number in reversed(taken):
                self.free(block, number)

    def settle(self) -> None:
        """Carry out the frees that had to wait."""
        while self._waiting and self._lock.acquire(blocking=False):
            try:
                while self._waiting:
                    block, number = self._waiting.popleft()
                    event = self._release(block, number)
                    (now := self.allocator).free(block)
                    event.allocated_bytes, event.requested_bytes = now.allocated_bytes, now.requested_bytes
                    self.trace.events.append(event)
            finally:
                self._lock.release()

    @contextmanager
    def undisturbed(self) -> Iterator[CachingAllocator]:
        """The allocator, for what takes several steps: a free that comes in between waits until they are done."""
        let_go()
        with self._lock:
            yield self.allocator
        self.settle()

    def record_stream(self, tensor: torch.Tensor, stream: int) -> None:
        """Another stream uses a tensor: its block, once freed, waits for that one."""
        record = RECORDS[tensor.untyped_storage()._cdata]
        if record.block is not None:
            self.allocator.record_stream(record.block, stream)

    def _release(self, block: Block, number: int) -> Event:
        self.owners.live.discard(number)
        n_bytes, phase, address = block.requested_bytes, self.labels.phase(), block.address
        return Event("free", n_bytes, number, phase=phase, address=address, block_bytes=block.size_bytes)

    def _place(self, storage: torch.UntypedStorage, tensor: torch.Tensor) -> None:
        """Give a new storage its block, for as long as it lives; none if it has no bytes, or stands for zeros."""
        n_bytes, block, number = storage.nbytes(), None, NO_ALLOCATION
        if n_bytes and not tensor._is_zerotensor():
            block, number = self.allocate(n_bytes)
            self.owners.holds(number, tensor.shape, tensor.dtype)
        record = StorageRecord(storage, storage_died)
        record.memory, record.key, record.n_bytes = self, storage._cdata, n_bytes
        record.block, record.number, record.content = block, number, None
        RECORDS[record.key] = record

    def place_if_new(self, tensor: torch.Tensor) -> None:
        """Place the storage of a tensor that an operation has returned, unless it has its place already."""
        storage = tensor.untyped_storage()
        record = RECORDS.get(storage._cdata)
        if record is None:
            self._place(storage, tensor)
        elif record.n_bytes != storage.nbytes():
            self._resize(record, storage.nbytes(), tensor.element_size())

    def _resize(self, record: StorageRecord, n_bytes: int, item_bytes: int) -> None:
        """Move what an operation has resized; a deterministic run fills what is new, by way of an element.

        Source: fill_resize_deterministic_ in aten/src/ATen/native/Resize.h.
        """
        n_before = record.n_bytes // item_bytes
        self.move(record, n_bytes)
        if n_bytes // item_bytes > n_before and fills_memory():
            self.allocate_and_free(item_bytes)

    def move(self, record: StorageRecord, n_bytes: int) -> None:
        """Give a storage that was resized a block of its new size; the old one comes back when this is there.

        Source: resize_bytes_cuda in aten/src/ATen/native/cuda/Resize.cpp.
        """
        block, number = record.block, record.number
        record.block, record.number = self.allocate(n_bytes) if n_bytes else (None, NO_ALLOCATION)
        record.n_bytes, record.content = n_bytes, None
        if record.block is not None:
            self.owners.moved(number, record.number)
        if block is not None:
            self.free(block, number)

    @staticmethod
    def exchange(one: StorageRecord, other: StorageRecord) -> None:
        """Two storages of one size lie where the other did."""
        one.block, one.number, other.block, other.number = other.block, other.number, one.block, one.number

    def place_results(self, result: object) -> None:
        """Place the new storages of an operation's result: a tensor, or a tuple or list of tensors, in order."""
        if isinstance(result, torch.Tensor):
            if is_meta(result):
                self.place_if_new(result)
        elif isinstance(result, (tuple, list)):
            for item in result:
                self.place_results(item)

    @property
    def blas_workspaces(self) -> Workspaces:
        """What cuBLAS works in, by the process's variables, which are read first: this may be the first use of all."""
        self.read_environment()
        return self._workspaces

    def use_blas(self, by_lt: bool = False) -> None:
        """Take this thread's workspaces, if it is the first matrix product here, and threads keep theirs."""
        self.blas_workspaces.use(self, by_lt)

    def is_made_by(self, node: torch.autograd.graph.Node, record: StorageRecord) -> bool:
        """Whether a storage was placed while this node, which a backward runs now, has run."""
        return self.running == run_of(node) and record.number >= self.running_from

    # what the observer asks

    def in_backward(self, roots: list[Root]) -> AbstractContextManager[None]:
        return nullcontext()

    def at_one_instant(self) -> AbstractContextManager[object]:
        """This thread's turn, where several run on this GPU."""
        return self.turn or nullcontext()

    def position(self) -> int:
        return len(self.trace.events)

    def holds_tensors(self) -> bool:
        """Whether any tensor lies here: not what has a name of its own, nor what was found."""
        return any(number in self.owners.tensors for number in self.owners.live)

    def numbers_of(self, tensor: torch.Tensor) -> list[int]:
        """The allocations on this GPU in which a tensor lies: one, for a plain tensor."""
        records = (RECORDS.get(storage._cdata) for storage in known_storages(tensor))
        return [r.number for r in records if r is not None and r.block is not None and r.memory is self]

    def note_start(self, number: int) -> None:
        """The gradient that a backward starts from: a given one, or the 1 that PyTorch has just made for a number."""
        last = next((e for e in reversed(self.trace.events) if e.action == "alloc"), None)
        is_made = last is not None and (last.allocation, last.operation) == (number, "aten::ones_like")
        self.owners.add(number, Role(Category.TEMPORARIES if is_made else Category.GRADIENTS))

    def note_computed(self, tensor: torch.Tensor, numbers: list[int]) -> None:
        """Of a tensor that a graph has computed and keeps nothing more is asked here."""

    def shift(self) -> int:
        """A backward runs on the thread that calls it: all nodes are numbered in one row."""
        return 0

    def concerns(self, tensor: torch.Tensor) -> bool:
        """Whether something on this GPU may have led to a tensor: to one on a GPU of the machine, nothing has."""
        return device_of(tensor).type in ("meta", "cpu")

    def is_watched(self) -> bool:
        """Whether what runs on this thread may be this GPU's: not where it is set aside."""
        return any(mode.memory is self for mode in attached())

    def _segment_changed(self, action: str, address: int, n_bytes: int) -> None:
        stream = self.streams.current
        self.trace.events.append(Event(action, n_bytes, phase=self.labels.phase(), address=address, stream=stream))

"""Two context managers that measure a block of code: what the allocator handed out, and what autograd keeps."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import torch
from torch.autograd.graph import Node, saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.weak import WeakTensorKeyDictionary

from every_byte.gpu.protocol import GPU
from every_byte.ledger.module_paths import ModulePaths
from every_byte.ledger.saved_tensors import SavedTensor, graph_nodes, node_name, packed_slots, rows_of, storages_of

Hook: TypeAlias = Callable[[Any], Any]  # packs a tensor into whatever it likes, or unpacks that
_READINGS = ("allocated", "current", "freed", "peak")


class AllocatedMemContext:
    """What a GPU's caching allocator hands out and takes back while a block of code runs.

    `before`, `after` and `delta` (their difference) are dicts of bytes: `allocated` and `freed` add up since the GPU
    was opened, `current` is what is allocated now, `peak` the most there has been. They are readings and reset nothing,
    so contexts may be nested and used in loops. Hence `delta["peak"]` is how far the block raised the peak of all time:
    0 if an earlier one was higher. For the block's own peak, call `gpu.reset_peak_memory_stats()` before it.

    The GPU is `gpu`, or the innermost open one. Its libraries are loaded before the first reading, so that their
    workspace does not count; that of the thread which runs a backward does, the first time.

    Counts: whole blocks of the caching allocator, with rounding and what was not split off, whoever owns them: what
            other threads allocate meanwhile is among them, and what is freed inside though made before. Not: memory
            that is cached but not allocated, and memory from elsewhere (the CUDA context, NCCL, kernels' code).
    Unit:   bytes.
    Raises: RuntimeError if no GPU is open, and for `after` or `delta` before the block has ended.
    Source: `allocated_bytes.all.*` of `torch.cuda.memory_stats`.
    Example: with AllocatedMemContext(gpu) as memory: y = model(x)
    """

    def __init__(self, gpu: GPU | None = None) -> None:
        self._requested_gpu = gpu
        self._gpu: GPU | None = None
        self._before: dict[str, int] | None = None
        self._after: dict[str, int] | None = None

    def __enter__(self) -> "AllocatedMemContext":
        if self._gpu is not None:
            raise RuntimeError("this AllocatedMemContext is open already: make a second one for the inner block.")
        self._gpu = _current_gpu() if self._requested_gpu is None else self._requested_gpu
        self._gpu.load_libraries()
        self._before, self._after = _reading(self._gpu), None
        return self

    def __exit__(self, *exc_info: object) -> None:
        gpu, self._gpu = self._gpu, None
        assert gpu is not None
        self._after = _reading(gpu)

    @property
    def before(self) -> dict[str, int]:
        """The readings at the start of the block."""
        return self._known(self._before, "before", "has begun")

    @property
    def after(self) -> dict[str, int]:
        """The readings at the end of the block."""
        return self._known(self._after, "after", "has ended")

    @property
    def delta(self) -> dict[str, int]:
        """`after` less `before`."""
        after = self._known(self._after, "delta", "has ended")
        return {name: after[name] - self.before[name] for name in _READINGS}

    @staticmethod
    def _known(reading: dict[str, int] | None, name: str, moment: str) -> dict[str, int]:
        if reading is None:
            raise RuntimeError(f"`{name}` is known once the `with` block {moment}: read it after that.")
        return dict(reading)


def _current_gpu() -> GPU:
    from every_byte.gpu.device import current_gpu

    return current_gpu()


def _reading(gpu: GPU) -> dict[str, int]:
    stats = gpu.memory_stats()
    return {name: stats[f"allocated_bytes.all.{name}"] for name in _READINGS}


class SavedAt(NamedTuple):
    """When a tensor was saved: in which module, and for which node by autograd's numbering on that thread."""

    module: str
    sequence_number: int


class SavedTensorContext:
    """The tensors that autograd keeps for backward because of what runs inside the block, on any device.

    `saved_tensor_dict` has them as keys (each an alias that shares the storage) and is weak: when the graph goes, by
    backward or by deletion, so do its entries. Tensors of `ignored_tensors`, as `model.parameters()`, are left out with
    all views of them, by the storages they have when the context is made. Contexts may be nested (each sees the tensors
    of its block), used again (they add up) and put inside other saved-tensor hooks.

    Counts: each storage once, whole, however many slots, views, transposes or splits of it are kept, and however small;
            a copy that autocast made of a weight is a storage of its own. Not seen: what is kept inside a checkpointed
            region or under other hooks opened in the block (`save_on_cpu`), unless they keep tensors through this one;
            what selective checkpointing stores; tensors that a module or a custom Function keeps as attributes
            (`ctx.x = t` instead of `save_for_backward`); threads other than the one that opened it.
    Unit:   bytes of storage, exact; no allocator rounding.
    Raises: TypeError for ignored_tensors that are no tensors.
    Source: `torch.autograd.graph.saved_tensors_hooks`.
    Example: with SavedTensorContext(ignored_tensors=model.parameters()) as saved: y = model(x)
    """

    def __init__(self, ignored_tensors: Iterable[torch.Tensor] = ()) -> None:
        if isinstance(ignored_tensors, torch.Tensor):
            ignored_tensors = (ignored_tensors,)
        # A StorageWeakRef frees the bytes and withholds the address, so that no later storage is taken for this one.
        self._ignored = {StorageWeakRef(storage) for tensor in ignored_tensors for storage in _checked_storages(tensor)}
        self.saved_tensor_dict: MutableMapping[torch.Tensor, SavedAt] = WeakTensorKeyDictionary()
        self.module_paths = ModulePaths()
        self._open: ExitStack | None = None

    def __enter__(self) -> "SavedTensorContext":
        if self._open is not None:
            raise RuntimeError("this SavedTensorContext is open already: make a second one for the inner block.")
        outer = torch._C._autograd._top_saved_tensors_default_hooks(False)
        with ExitStack() as stack:
            stack.enter_context(self.module_paths)
            stack.enter_context(saved_tensors_hooks(self._pack_hook(outer), outer[1] if outer else _unchanged))
            self._open = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        stack, self._open = self._open, None
        assert stack is not None
        stack.close()

    @property
    def saved_tensor_mem(self) -> int:
        """Bytes that are kept now, each storage once."""
        return sum(storage.nbytes() for storage in self._kept_storages().values())

    def rows(self, output: torch.Tensor | Sequence[torch.Tensor]) -> list[SavedTensor]:
        """Which module, node and slot of the graph of `output` keeps what, in the order of forward.

        Counts: what this context saw being kept; a storage has a row for each slot that keeps it.
        Raises: RuntimeError if backward has freed the graph; ValueError for an output without a grad_fn; TypeError for
                one that is no tensor.
        """
        kept = self._kept_storages()
        by_node = {node: self._rows_of_slots(node, kept) for node in graph_nodes(output)}
        _number_namesakes(by_node)
        unseen = set(kept) - {row.storage for rows in by_node.values() for row in rows}
        self._add_rows_of_views(by_node, unseen)
        return [row for rows in by_node.values() for row in rows]

    def _rows_of_slots(self, node: Node, kept: Mapping[int, torch.UntypedStorage]) -> list[SavedTensor]:
        module, name = self.module_paths.of_node(node), node_name(node)
        slots = [(slot, packed) for slot, packed in packed_slots(node) if isinstance(packed, torch.Tensor)]
        rows = [row for slot, packed in slots for row in rows_of(module, name, slot, packed)]
        return [row for row in rows if row.storage in kept]

    def _add_rows_of_views(self, by_node: dict[Node, list[SavedTensor]], unseen: set[int]) -> None:
        """Give CopySlices, which stands for an operation that changed a view in place and hides its slots, its rows.

        Autograd numbers that operation's node, CopySlices and the view's new node one after the other: what the same
        module saved after the graph's node before, up to there, is its own.
        """
        for before, node in zip([None, *by_node], by_node, strict=False):
            if node_name(node) != "CopySlices":
                continue
            module, last = self.module_paths.of_node(node), node._sequence_nr() + 1
            first = before._sequence_nr() + 1 if before else 0
            for tensor, saved_at in list(self.saved_tensor_dict.items()):
                if saved_at.module == module and first <= saved_at.sequence_number <= last:
                    rows = [row for row in rows_of(module, "CopySlices", "", tensor) if row.storage in unseen]
                    unseen -= {row.storage for row in rows}
                    by_node[node] += rows

    def _pack_hook(self, outer: tuple[Hook, Hook] | None) -> Hook:
        def pack(tensor: torch.Tensor) -> Any:
            packed = outer[0](tensor) if outer else tensor
            if packed is tensor:
                packed = tensor.detach()  # lives as long as the graph keeps it, which the tensor itself may outlive
            if isinstance(packed, torch.Tensor) and not self._is_ignored(packed):
                number = torch._C._autograd._get_sequence_nr() - 1
                self.saved_tensor_dict[packed] = SavedAt(self.module_paths.current, number)
            return packed

        return pack

    def _is_ignored(self, tensor: torch.Tensor) -> bool:
        return all(StorageWeakRef(storage) in self._ignored for storage in storages_of(tensor))

    def _kept_storages(self) -> dict[int, torch.UntypedStorage]:
        storages = [storage for tensor in list(self.saved_tensor_dict) for storage in storages_of(tensor)]
        return {storage._cdata: storage for storage in storages if StorageWeakRef(storage) not in self._ignored}


def _number_namesakes(by_node: dict[Node, list[SavedTensor]]) -> None:
    """Tell a module's nodes of one name apart, by their order in forward."""
    seen: Counter[tuple[str, str]] = Counter()
    for node, rows in by_node.items():
        if rows:
            name = rows[0].module, rows[0].node
            seen[name] += 1
            by_node[node] = [replace(row, nth=seen[name]) for row in rows]


def _checked_storages(tensor: torch.Tensor) -> list[torch.UntypedStorage]:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(
            f"ignored_tensors must hold tensors: got {type(tensor).__name__}; try model.parameters(), without names."
        )
    return storages_of(tensor)


def _unchanged(packed: Any) -> Any:
    return packed

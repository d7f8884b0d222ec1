"""What an autograd graph keeps for backward, slot by slot, read from its nodes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.autograd.graph import Node
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from every_byte.tables import Table

from .deep_graphs import HARMLESS, looked_at, number_of


@dataclass(frozen=True)
class SavedTensor:
    """One slot of one node of the graph that keeps a tensor for backward.

    `slot` is autograd's name for it ("mat1", "result"; "tensors[0]" in a custom Function; "" where PyTorch does not
    show it, which is so for an operation that changed a view in place). `storage` tells storages apart; `nth` tells
    nodes of one name in one module apart, in the order of forward: the first is 1.

    Counts: `storage_bytes` is the whole storage, also where the slot keeps a small view of it.
    """

    module: str
    node: str
    slot: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    storage_bytes: int
    storage: int
    nth: int = 1


def as_text(rows: Iterable[SavedTensor]) -> str:
    """Rows as a table in plain text, without the storages' keys, which differ from run to run."""
    head = ["module", "node", "slot", "shape", "type", "bytes"]
    cells = [
        [
            row.module,
            row.node,
            row.slot,
            str(row.shape),
            str(row.dtype).removeprefix("torch."),
            f"{row.storage_bytes:,d}",
        ]
        for row in rows
    ]
    return Table("", head, cells, numbers=1).text()


def storages_of(tensor: torch.Tensor) -> list[torch.UntypedStorage]:
    """The storages behind a tensor: one, or those of its parts if it is sparse or a wrapper (as DTensor)."""
    if is_traceable_wrapper_subclass(tensor):
        names, _ = tensor.__tensor_flatten__()
        parts = [getattr(tensor, name) for name in names]  # of a DTensor its share, and its mesh of ranks
        return [storage for part in parts if isinstance(part, torch.Tensor) for storage in storages_of(part)]
    if tensor.layout is torch.strided:
        return [tensor.untyped_storage()]
    if tensor.layout is torch.sparse_coo:
        return [part.untyped_storage() for part in (tensor._indices(), tensor._values())]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = tensor.crow_indices(), tensor.col_indices(), tensor.values()
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        parts = tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    else:
        return []  # mkldnn: its memory is not PyTorch's
    return [part.untyped_storage() for part in parts]


def rows_of(module: str, node: str, slot: str, tensor: torch.Tensor) -> list[SavedTensor]:
    """One row for each storage of a tensor that a slot keeps."""
    shape = tuple(tensor.shape)
    return [
        SavedTensor(module, node, slot, shape, tensor.dtype, storage.nbytes(), storage._cdata)
        for storage in storages_of(tensor)
    ]


def graph_nodes(output: torch.Tensor | Sequence[torch.Tensor]) -> list[Node]:
    """The nodes that a backward from `output` may run, in the order in which forward made them.

    Raises: TypeError for an output that is no tensor or sequence of tensors; ValueError for one without a grad_fn.
    """
    outputs = (output,) if isinstance(output, torch.Tensor) else tuple(output)
    todo = [_grad_fn(tensor) for tensor in outputs]
    found = set(todo)
    while todo:
        for node, _ in todo.pop().next_functions:
            if node is not None and node not in found:
                found.add(node)
                todo.append(node)
    nodes = sorted(found, key=number_of)
    if len(nodes) > HARMLESS:  # their deletion would overflow the stack, now that Python has an object for each
        for node in reversed(nodes):
            looked_at(node)
    return nodes


def _grad_fn(output: torch.Tensor) -> Node:
    if not isinstance(output, torch.Tensor):
        raise TypeError(f"output must be a tensor or a sequence of tensors: got {type(output).__name__}.")
    if output.grad_fn is None:
        raise ValueError(
            f"output must have a grad_fn: got a tensor of shape {tuple(output.shape)} without one, as leaves and "
            "tensors made under no_grad are; pass what the model's forward returned, with gradients on."
        )
    return output.grad_fn


def node_name(node: Node) -> str:
    """Autograd's name for a node, without namespaces: "AddmmBackward0", "CopySlices"."""
    return node.name().rsplit("::", 1)[-1]


def packed_slots(node: Node) -> Iterator[tuple[str, object]]:
    """For each tensor that `node` saved under saved-tensor hooks: the slot's name and what the pack hook returned.

    No unpack hook is run: a checkpoint's would recompute its region.

    Raises: RuntimeError if backward has freed what the node kept.
    """
    for slot in _slots(type(node), node):
        raw = _unless_freed(node, slot, f"_raw_saved_{slot}")
        several = isinstance(raw, tuple)
        packed = raw if several else (raw,)
        if any(saved is None or saved.unpack_hook is None and saved.data is None for saved in packed) or not packed:
            _unless_freed(node, slot, "saved_tensors" if slot == "tensors" else f"_saved_{slot}")
        for index, saved in enumerate(packed):
            if saved is not None and saved.unpack_hook is not None:
                yield (f"{slot}[{index}]" if several else slot), saved.data


class RawSlot(Protocol):
    """PyTorch's own record of a tensor that a node keeps: the tensor, or what a pack hook returned for it."""

    data: object
    unpack_hook: Callable[..., Any] | None


def raw_slots(node: Node) -> Iterator[tuple[str, RawSlot]]:
    """For each tensor that `node` keeps: the slot's name and PyTorch's own record of it; no hook is run.

    The record's `data` is the tensor, or what a pack hook returned for it, and None once backward has freed it.
    """
    for slot in _slots(type(node), node):
        try:
            raw = getattr(node, f"_raw_saved_{slot}")
        except RuntimeError:  # freed
            continue
        if isinstance(raw, tuple):
            yield from ((f"{slot}[{index}]", saved) for index, saved in enumerate(raw) if saved is not None)
        elif raw is not None:
            yield slot, raw


_SLOTS: dict[type, tuple[str, ...]] = {}


def _slots(kind: type, node: Node) -> tuple[str, ...]:
    if kind not in _SLOTS:
        raw = "_raw_saved_"
        _SLOTS[kind] = tuple(sorted(name.removeprefix(raw) for name in dir(node) if name.startswith(raw)))
    return _SLOTS[kind]


def _unless_freed(node: Node, slot: str, attribute: str) -> Any:
    try:
        return getattr(node, attribute)
    except RuntimeError as error:
        raise RuntimeError(
            f"output's graph keeps nothing any more: backward has freed {node_name(node)}'s saved tensors; "
            "ask for the rows before backward, or run backward(retain_graph=True)."
        ) from error

"""Storages on "cuda": how they are made and moved, where they say that they lie, and who else may see them."""

import threading
from typing import Any

import torch

from every_byte.gpu.known.noting import bring, same
from every_byte.gpu.memory.as_cuda import parsed
from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.memory.records import RECORDS
from every_byte.gpu.patches.replacing import Function, Maker, Undo, all_of, replaced

from .naming import HERE, is_outside, named

MOST_BYTES = 1 << 20
"""Of larger storages no value is brought to the GPU."""


class _Saving(threading.local):
    """Whether this thread saves a file `now`: then a storage need not be brought to the CPU for it. And whether it has
    `left_hole` in a file since somebody asked."""

    now: bool = False
    left_hole: bool = False


saving = _Saving()


def hold_storages() -> Undo:
    """Let storages of a simulated GPU be what those of CUDA are. Returns what undoes it."""
    storage = torch.UntypedStorage
    changes: dict[str, Maker] = {
        "__new__": _made, "device": _device, "is_cuda": _is_cuda, "data_ptr": _data_ptr, "is_shared": _is_shared,
        "share_memory_": _shared, "_share_cuda_": _not_shared, "cpu": _brought, "clone": _copied, "to": _moved,
        "cuda": _to_cuda,
    }  # fmt: skip
    return all_of([replaced(storage, name, make) for name, make in changes.items()])


def lies_here(storage: torch.UntypedStorage) -> bool:
    """Whether a storage is one of a GPU that stands for "cuda"."""
    record = RECORDS.get(storage._cdata)
    return record is not None and record.memory.as_cuda is not None


def address_of(storage: torch.UntypedStorage) -> int:
    """Where a storage lies on a simulated GPU, as programs ask that tell storages apart by it; 0 for others."""
    record = RECORDS.get(storage._cdata)
    return record.block.address if record is not None and record.block is not None else 0


def _made(original: Function) -> "staticmethod[..., Any]":
    def new(
        cls: type[torch.UntypedStorage], *args: Any, device: torch.device | str | int | None = None, **kwargs: Any
    ) -> Any:
        if not is_outside() or device is None or standing_for_cuda() is None or named(device) != HERE:
            return original(cls, *args, **kwargs) if device is None else original(cls, *args, device=device, **kwargs)
        if args and not isinstance(args[0], int):
            return original(cls, *args, **kwargs).to(device=device)
        return torch.empty(*args or (kwargs.get("size", 0),), dtype=torch.uint8, device=device).untyped_storage()

    return staticmethod(new)


def _device(original: Any) -> property:  # a descriptor of C, as the next
    def told(storage: torch.UntypedStorage) -> Any:
        record = RECORDS.get(storage._cdata)
        here = record and record.memory.as_cuda
        return here.device if here and is_outside() else original.__get__(storage)

    return property(told, doc=original.__doc__)


def _is_cuda(original: Any) -> property:
    return property(lambda storage: storage.device.type == "cuda", doc=original.__doc__)


def _data_ptr(original: Function) -> Function:
    return lambda storage: address_of(storage) or original(storage)


def _is_shared(original: Function) -> Function:
    return lambda storage: lies_here(storage) or original(storage)


def _shared(original: Function) -> Function:
    return lambda storage, *args, **kwargs: storage if lies_here(storage) else original(storage, *args, **kwargs)


def _not_shared(original: Function) -> Function:
    def share(storage: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
        if not lies_here(storage):
            return original(storage, *args, **kwargs)
        raise NotImplementedError(
            "a simulated GPU is seen by its own process alone: a tensor on it was to be sent to another; send "
            "tensor.cpu()."
        )

    return share


def _brought(original: Function) -> Function:
    def cpu(storage: torch.UntypedStorage) -> Any:
        if not lies_here(storage):
            return original(storage)
        if saving.now:
            return storage
        return torch.zeros(storage.nbytes(), dtype=torch.uint8, device="cpu").untyped_storage()

    return cpu


def _copied(original: Function) -> Function:
    def clone(storage: torch.UntypedStorage) -> Any:
        return _on_gpu(storage) if lies_here(storage) else original(storage)

    return clone


def _moved(original: Function) -> Function:
    def to(storage: torch.UntypedStorage, *, device: torch.device | str | int, non_blocking: bool = False) -> Any:
        if standing_for_cuda() is None or named(device) != HERE:
            return storage.cpu() if lies_here(storage) else original(storage, device=device, non_blocking=non_blocking)
        return storage if parsed(device) == storage.device else _on_gpu(storage)  # "cuda" alone is another, also there

    return to


def _to_cuda(original: Function) -> Function:
    def cuda(
        storage: torch.UntypedStorage, device: torch.device | str | int | None = None, non_blocking: bool = False
    ) -> Any:
        if standing_for_cuda() is None:
            return original(storage, device, non_blocking)
        return storage.to(device=HERE if device is None else device)

    return cuda


def _on_gpu(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """A copy on the GPU, whose bytes are known as far as those are."""
    made = torch.empty(storage.nbytes(), dtype=torch.uint8, device=HERE)
    theirs = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    if lies_here(storage):
        same(made, theirs)
    elif storage.nbytes() <= MOST_BYTES:
        bring(made, theirs)
    return made.untyped_storage()

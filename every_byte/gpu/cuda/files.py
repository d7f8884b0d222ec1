"""Checkpoints: written with holes where a simulated GPU's bytes would be, and read without what goes there."""

import os
import threading

import torch

from every_byte.gpu.known.noting import bring, same
from every_byte.gpu.memory.attachment import standing_for_cuda
from every_byte.gpu.memory.storages import RECORDS
from every_byte.gpu.patches.replacing import all_of, replaced

from .naming import HERE, named

MOST_BYTES = 1 << 20
"""Of larger storages no value is read from a file."""
_saving = threading.local()


def keep_holes():
    """Let `torch.save` and `torch.load` work with a simulated GPU's storages. Returns what undoes it.

    A file has its size and its parts where they belong, and takes the disk's space for what is known alone. Whoever
    reads it, with a simulated GPU or without, finds zeros for what lay there.
    """
    storage = torch.UntypedStorage
    return all_of(
        [
            replaced(torch.serialization, "_save", _noting_that_it_saves),
            replaced(torch._C, "PyTorchFileWriter", _leaving_holes),
            replaced(storage, "cpu", _brought),
            replaced(storage, "clone", _copied),
            replaced(storage, "to", _moved),
            replaced(storage, "cuda", _to_cuda),
            *(replaced(owner, "load", _mapping) for owner in (torch, torch.serialization)),
        ]
    )


def _lies_here(storage: torch.UntypedStorage) -> bool:
    record = RECORDS.get(storage._cdata)
    return record is not None and record.memory.as_cuda is not None


def _noting_that_it_saves(original):
    def save(*args, **kwargs):
        _saving.now = True
        try:
            return original(*args, **kwargs)
        finally:
            _saving.now = False

    return save


def _leaving_holes(original):
    class Writer(original):
        """PyTorch's writer of checkpoints, which leaves a hole for each storage of a simulated GPU."""

        def write_record(self, name, data, n_bytes) -> None:
            if isinstance(data, torch.UntypedStorage) and _lies_here(data):
                self.write_record_metadata(name, n_bytes)
            else:
                super().write_record(name, data, n_bytes)

    return Writer


def _brought(original):
    def cpu(storage):
        if not _lies_here(storage):
            return original(storage)
        if getattr(_saving, "now", False):
            return storage
        return torch.zeros(storage.nbytes(), dtype=torch.uint8, device="cpu").untyped_storage()

    return cpu


def _copied(original):
    def clone(storage):
        return _on_gpu(storage) if _lies_here(storage) else original(storage)

    return clone


def _moved(original):
    def to(storage, *, device, non_blocking=False):
        if standing_for_cuda() is None or named(device) != HERE:
            return storage.cpu() if _lies_here(storage) else original(storage, device=device, non_blocking=non_blocking)
        return storage if _lies_here(storage) else _on_gpu(storage)

    return to


def _to_cuda(original):
    def cuda(storage, device=None, non_blocking=False):
        if standing_for_cuda() is None:
            return original(storage, device, non_blocking)
        return storage.to(device=HERE if device is None else device)

    return cuda


def _on_gpu(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """A copy on the GPU, whose bytes are known as far as those are."""
    made = torch.empty(storage.nbytes(), dtype=torch.uint8, device=HERE)
    theirs = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    if _lies_here(storage):
        same(made, theirs)
    elif storage.nbytes() <= MOST_BYTES:
        bring(made, theirs)
    return made.untyped_storage()


def _mapping(original):
    """A file whose tensors go to the GPU is mapped, not read: of weights nothing but their sizes is asked."""

    def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **rest):
        if mmap is None and _goes_to_gpu(map_location) and _can_be_mapped(f):
            mmap = True
        return original(f, map_location, pickle_module, weights_only=weights_only, mmap=mmap, **rest)

    return load


def _goes_to_gpu(map_location) -> bool:
    if standing_for_cuda() is None:
        return False
    return not isinstance(map_location, (str, torch.device)) or torch.device(map_location).type == HERE


def _can_be_mapped(f) -> bool:
    if not isinstance(f, (str, os.PathLike)) or not os.path.isfile(f):
        return False
    with open(f, "rb") as file:
        return torch.serialization._is_zipfile(file)

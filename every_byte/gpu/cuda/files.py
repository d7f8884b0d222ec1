"""Checkpoints: written with holes where a simulated GPU's bytes would be, and read without what goes there."""

import os

import torch

from every_byte.gpu.memory.attachment import standing_for_cuda
from every_byte.gpu.patches.replacing import all_of, replaced

from .kept import saved_over
from .naming import HERE
from .storages import lies_here, saving


def keep_holes():
    """Let `torch.save` and `torch.load` work with a simulated GPU's storages. Returns what undoes it.

    A file has its size and its parts where they belong, and takes the disk's space for what is known alone. Whoever
    reads it, with a simulated GPU or without, finds zeros for what lay there.
    """
    return all_of(
        [
            *(replaced(owner, "save", _beside) for owner in (torch, torch.serialization)),
            replaced(torch.serialization, "_save", _noting_that_it_saves),
            replaced(torch._C, "PyTorchFileWriter", _leaving_holes),
            replaced(torch.UntypedStorage, "_write_file", _written_as_of_the_host),
            replaced(torch.UntypedStorage, "_set_from_file", _passed_over),
            *(replaced(owner, "load", _mapping) for owner in (torch, torch.serialization)),
        ]
    )


def _beside(original):
    """A file that is there is replaced as a whole: tensors may be mapped from it."""

    def save(obj, f, *args, **kwargs):
        if standing_for_cuda() is None or not isinstance(f, (str, os.PathLike)):
            return original(obj, f, *args, **kwargs)
        return saved_over(f, lambda path: original(obj, path, *args, **kwargs))

    return save


def _noting_that_it_saves(original):
    def save(*args, **kwargs):
        saving.now = True
        try:
            return original(*args, **kwargs)
        finally:
            saving.now = False

    return save


def _leaving_holes(original):
    class Writer(original):
        """PyTorch's writer of checkpoints, which leaves a hole for each storage of a simulated GPU."""

        def write_record(self, name, data, n_bytes) -> None:
            if isinstance(data, torch.UntypedStorage) and lies_here(data):
                saving.left_hole = True
                self.write_record_metadata(name, n_bytes)
            else:
                super().write_record(name, data, n_bytes)

    return Writer


def _written_as_of_the_host(original):
    """The files of old have no parts: a storage's bytes are written."""

    def write(storage, *where) -> None:
        saving.left_hole = lies_here(storage) or getattr(saving, "left_hole", False)
        original(storage.cpu() if lies_here(storage) else storage, *where)

    return write


def _passed_over(original):
    def read(storage, *where):
        if not lies_here(storage):
            return original(storage, *where)
        original(torch.UntypedStorage(storage.nbytes()), *where)
        return storage

    return read


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

"""Checkpoints: written with holes where a simulated GPU's bytes would be, and read without what goes there."""

import os
from typing import Any

import torch

from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.replacing import Function, Undo, all_of, replaced

from .kept import saved_over
from .naming import HERE
from .storages import lies_here, saving


def keep_holes() -> Undo:
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


def _beside(original: Function) -> Function:
    """A file that is there is replaced as a whole: tensors may be mapped from it."""

    def save(obj: object, f: object, *args: Any, **kwargs: Any) -> Any:
        if standing_for_cuda() is None or not isinstance(f, (str, os.PathLike)):
            return original(obj, f, *args, **kwargs)
        return saved_over(f, lambda path: original(obj, path, *args, **kwargs))

    return save


def _noting_that_it_saves(original: Function) -> Function:
    def save(*args: Any, **kwargs: Any) -> Any:
        saving.now = True
        try:
            return original(*args, **kwargs)
        finally:
            saving.now = False

    return save


def _leaving_holes(original: Any) -> type:  # a class of C
    class Writer(original):  # type: ignore[misc]  # whichever stands there
        """PyTorch's writer of checkpoints, which leaves a hole for each storage of a simulated GPU."""

        def write_record(self, name: str, data: object, n_bytes: int) -> None:
            if isinstance(data, torch.UntypedStorage) and lies_here(data):
                saving.left_hole = True
                self.write_record_metadata(name, n_bytes)
            else:
                super().write_record(name, data, n_bytes)

    return Writer


def _written_as_of_the_host(original: Function) -> Function:
    """The files of old have no parts: a storage's bytes are written."""

    def write(storage: torch.UntypedStorage, *where: Any) -> None:
        saving.left_hole = lies_here(storage) or saving.left_hole
        original(storage.cpu() if lies_here(storage) else storage, *where)

    return write


def _passed_over(original: Function) -> Function:
    def read(storage: torch.UntypedStorage, *where: Any) -> Any:
        if not lies_here(storage):
            return original(storage, *where)
        original(torch.UntypedStorage(storage.nbytes()), *where)
        return storage

    return read


def _mapping(original: Function) -> Function:
    """A file whose tensors go to the GPU is mapped, not read: of weights nothing but their sizes is asked."""

    def load(
        f: object,
        map_location: object = None,
        pickle_module: object = None,
        *,
        weights_only: bool | None = None,
        mmap: bool | None = None,
        **rest: Any,
    ) -> Any:
        if mmap is None and _goes_to_gpu(map_location) and _can_be_mapped(f):
            mmap = True
        return original(f, map_location, pickle_module, weights_only=weights_only, mmap=mmap, **rest)

    return load


def _goes_to_gpu(map_location: object) -> bool:
    if standing_for_cuda() is None:
        return False
    return not isinstance(map_location, (str, torch.device)) or torch.device(map_location).type == HERE


def _can_be_mapped(f: object) -> bool:
    if not isinstance(f, (str, os.PathLike)) or not os.path.isfile(f):
        return False
    with open(f, "rb") as file:
        return torch.serialization._is_zipfile(file)

"""What PyTorch does to tensors unseen by dispatch modes: made by `torch.tensor`, resized as storages, pinned."""

from typing import Any

import torch

from every_byte.gpu.known.content import may_be_known
from every_byte.gpu.known.noting import bring
from every_byte.gpu.memory.attachment import this_thread
from every_byte.gpu.memory.modes import attached, standing_for_cuda
from every_byte.gpu.memory.physical import is_meta
from every_byte.gpu.memory.records import RECORDS
from every_byte.gpu.memory.whose import memory_of

from .replacing import Function, Undo, all_of, replaced


def see_resized_storages() -> Undo:
    """`storage.resize_` is no operation that a dispatch mode sees."""

    def seeing(original: Function) -> Function:
        def resize_(storage: torch.UntypedStorage, n_bytes: int) -> Any:
            result = original(storage, n_bytes)
            record = RECORDS.get(storage._cdata)
            if record is not None:
                record.memory.operation = "storage.resize_"
                record.memory.move(record, storage.nbytes())
            return result

        return resize_

    return replaced(torch.UntypedStorage, "resize_", seeing)


def see_what_tensor_makes() -> Undo:
    """`torch.tensor([...], device=...)` makes its tensor unseen by dispatch modes; on CUDA it copies it to the GPU."""

    def seeing(original: Function) -> Function:
        def make(*args: Any, **kwargs: Any) -> Any:
            if not attached() or _is_none_of_the_gpu(args):
                return original(*args, **kwargs)
            mode = attached()[-1]
            with mode.meanwhile("making_a_tensor"):
                made = original(*args, **kwargs)
            if is_meta(made) and made.untyped_storage()._cdata not in RECORDS:
                memory = mode.memory
                memory.operation = "aten::_to_copy"
                memory.place_if_new(made)
            if is_meta(made):
                _note_numbers(made, _data(original, args, kwargs))
            return made

        return make

    places = (torch, "tensor"), (torch, "as_tensor"), (torch, "asarray"), (torch.Tensor, "new_tensor")
    return all_of([replaced(owner, name, seeing) for owner, name in places])


def _is_none_of_the_gpu(args: tuple[Any, ...]) -> bool:
    """Whether a meta tensor that is made is the program's own: where a GPU stands for "cuda", if it says so or if
    it is made of such a one."""
    if standing_for_cuda() is None or this_thread.depth:
        return False
    if this_thread.asked:
        return this_thread.asked == "meta"
    return not (args and isinstance(args[0], torch.Tensor) and memory_of(args[0]) is not None)


def _data(make: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Of what a tensor is made."""
    position = 1 if make.__name__ == "new_tensor" else 0
    return args[position] if len(args) > position else kwargs.get("data", kwargs.get("obj"))


def _note_numbers(made: torch.Tensor, data: object) -> None:
    """A tensor that is made of numbers, of lists of them or of an array has their values."""
    record = RECORDS[made.untyped_storage()._cdata]
    if record.content is None and may_be_known(made.dtype, record.n_bytes) and not _has_tensors(data):
        bring(made.detach(), torch.tensor(data, dtype=made.dtype, device="cpu"))


def _has_tensors(data: object) -> bool:
    if isinstance(data, (list, tuple)):
        return any(map(_has_tensors, data))
    if isinstance(data, torch.Tensor):
        return is_meta(data)
    return not isinstance(data, (bool, int, float)) and not hasattr(data, "__array_interface__")


def pin_without_a_driver() -> Undo:
    """Pinned memory is the host's: a plain copy stands for it where no driver can pin."""

    def pinning(original: Function) -> Function:
        def pin_memory(tensor: torch.Tensor, device: object = None) -> Any:
            if attached() and not is_meta(tensor) and not torch.accelerator.is_available():
                return tensor.clone()
            return original(tensor, device)

        return pin_memory

    return replaced(torch.Tensor, "pin_memory", pinning)

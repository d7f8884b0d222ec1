"""What PyTorch does to tensors unseen by dispatch modes: made by `torch.tensor`, resized as storages, pinned."""

from functools import partial

import torch

from every_byte.gpu.memory.attachment import attached
from every_byte.gpu.memory.storages import RECORDS

from .replacing import all_of, replaced


def see_resized_storages():
    """`storage.resize_` is no operation that a dispatch mode sees."""

    def seeing(original):
        def resize_(storage, n_bytes):
            result = original(storage, n_bytes)
            record = RECORDS.get(storage._cdata)
            if record is not None:
                record.memory.operation = "storage.resize_"
                record.memory.move(record, storage.nbytes())
            return result

        return resize_

    return replaced(torch.UntypedStorage, "resize_", seeing)


def see_what_tensor_makes():
    """`torch.tensor([...], device=...)` makes its tensor unseen by dispatch modes; on CUDA it copies it to the GPU."""

    def seeing(original):
        def make(*args, **kwargs):
            if not attached():
                return original(*args, **kwargs)
            mode = attached()[-1]
            with mode.meanwhile("making_a_tensor"):
                made = original(*args, **kwargs)
            if made.is_meta and made.untyped_storage()._cdata not in RECORDS:
                memory = mode.memory
                memory.operation = "aten::_to_copy"
                memory.place_if_new(made)
            return made

        return make

    places = (torch, "tensor"), (torch, "as_tensor"), (torch, "asarray"), (torch.Tensor, "new_tensor")
    table = torch.jit._builtins._get_builtin_table()  # by which torch.jit.script knows the first two
    undoings = [replaced(owner, name, seeing) for owner, name in places]
    for name in ("tensor", "as_tensor"):
        table[id(getattr(torch, name))] = f"aten::{name}"
        undoings.append(partial(table.pop, id(getattr(torch, name))))
    return all_of(undoings)


def pin_without_a_driver():
    """Pinned memory is the host's: a plain copy stands for it where no driver can pin."""

    def pinning(original):
        def pin_memory(tensor, *device):
            if attached() and not tensor.is_meta and not torch.accelerator.is_available():
                return tensor.clone()
            return original(tensor, *device)

        return pin_memory

    return replaced(torch.Tensor, "pin_memory", pinning)

"""What PyTorch decides by device type, made to decide as for CUDA while a simulated GPU is open, and put back after."""

import sys
import threading
import warnings
from functools import partial

import torch
import torch.optim.swa_utils
import torch.utils._foreach_utils

from every_byte.gpu.dispatch.autocast import cast_as_cuda
from every_byte.gpu.memory.attachment import OPEN_MEMORIES, attached
from every_byte.gpu.memory.storages import RECORDS
from every_byte.gpu.operators.registry import COMPOSITES, ON_META_ITSELF, RETURNS, as_pytorch_does

from .attention_order import heed_user_order
from .autocast import answer_as_cuda
from .backward import WATCHING
from .conversion import keep_parameters, keep_what_gets_data
from .files import load_without_complaint, load_zeros
from .printing import show_zeros
from .replacing import Changes, all_of, replaced
from .tensors import copy_storages

_FUNCTIONS_WITH_DEVICE_LISTS = (
    "_get_foreach_kernels_supported_devices",
    "_get_fused_kernels_supported_devices",
    "_get_capturable_supported_devices",
)


def _where_attached(operator: torch._ops.OpOverload, function, *args, **kwargs):
    """The override holds on every thread, and means something on those alone on which a simulated GPU is open."""
    if attached():
        return function(*args, **kwargs)
    _refuse_tensors_of_another_thread(operator, args)
    return as_pytorch_does(operator, *args, **kwargs)


def _refuse_tensors_of_another_thread(operator: torch._ops.OpOverload, args: tuple) -> None:
    """Not every operation comes by here, but a model's layers do, and no figure would tell what they took."""
    for x in args:
        is_plain = isinstance(x, torch.Tensor) and x.is_meta and x.layout is torch.strided
        record = RECORDS.get(x.untyped_storage()._cdata) if is_plain else None
        if record is not None and record.memory in OPEN_MEMORIES:
            raise RuntimeError(
                f"a simulated GPU counts on the thread that opened it: {operator.name().split('.')[0]} on the thread "
                f"{threading.current_thread().name!r} got a tensor of {record.memory.spec.name}, which is open on "
                "another; open a GPU on this thread (`with SimulatedGPU(...) as gpu:`) and make the tensors on it."
            )


def _override_operators():
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says, once, that a kernel is overridden: that is what we want
        for operator, function in COMPOSITES.items():
            library.impl(operator, partial(_where_attached, operator, function), "AutogradMeta")
            library.impl(operator, partial(_where_attached, operator, function), "AutogradOther")
        for operator in ON_META_ITSELF:  # Library.impl refuses "Meta" for composite operators
            library.m.impl(operator.name().removeprefix("aten::"), "Meta", RETURNS[operator], False)
    return library._destroy


def _accept_meta_in_optimizers():
    """Optimizers take the foreach form by default, and the fused one on request, on the devices of these lists."""

    def with_meta(original):
        return lambda *args, **kwargs: [*original(*args, **kwargs), "meta"]

    # torch.optim's modules have these functions by value; another thread may import some meanwhile
    modules = [
        m for name, m in sys.modules.copy().items() if name.startswith("torch.optim") or m is torch.utils._foreach_utils
    ]
    places = [(m, name) for m in modules for name in _FUNCTIONS_WITH_DEVICE_LISTS if name in vars(m)]
    return all_of([replaced(module, name, with_meta) for module, name in places])


def _accept_meta_in_fast_paths():
    """nn.MultiheadAttention and nn.TransformerEncoderLayer have one more device than those they name: PyTorch's own
    place for a device from outside."""
    return replaced(torch.utils.backend_registration, "_privateuse1_backend_name", lambda _: "meta")


def _see_resized_storages():
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


def _see_what_tensor_makes():
    """`torch.tensor([...], device=...)` makes its tensor unseen by dispatch modes; on CUDA it copies it to the GPU."""

    def seeing(original):
        def make(*args, **kwargs):
            if not attached():
                return original(*args, **kwargs)
            mode = attached()[-1]
            mode.makes_tensor = True
            try:
                made = original(*args, **kwargs)
            finally:
                mode.makes_tensor = False
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


def _pin_without_a_driver():
    """Pinned memory is the host's: a plain copy stands for it where no driver can pin."""

    def pinning(original):
        def pin_memory(tensor, *device):
            if attached() and not tensor.is_meta and not torch.accelerator.is_available():
                return tensor.clone()
            return original(tensor, *device)

        return pin_memory

    return replaced(torch.Tensor, "pin_memory", pinning)


def _watch():
    WATCHING.open()
    return WATCHING.close


class _Gates(Changes):
    """Everything that is changed in PyTorch for the whole process; opened by the first GPU, closed by the last."""

    def open(self) -> None:
        if "torch.distributed.fsdp" in sys.modules:
            self.add_fsdp()
        super().open()

    def add_fsdp(self) -> None:
        """FSDP2 has been imported: it, too, is to take a simulated GPU for what it is."""
        from .fsdp import shard_on_meta

        if shard_on_meta not in self.changes:
            self.add(shard_on_meta)


GATES = _Gates(
    [
        _override_operators,
        cast_as_cuda,
        answer_as_cuda,
        _accept_meta_in_optimizers,
        _accept_meta_in_fast_paths,
        keep_parameters,
        keep_what_gets_data,
        copy_storages,
        _see_resized_storages,
        _see_what_tensor_makes,
        show_zeros,
        load_zeros,
        load_without_complaint,
        _pin_without_a_driver,
        _watch,
        heed_user_order,
    ]
)

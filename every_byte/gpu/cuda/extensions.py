"""CUDA extensions that a program compiles while it runs: flagged by name, for no kernel of theirs runs here.

DeepSpeed's own optimizers are such, and are known: they allocate their state in Python, their kernels on the card take
nothing, and those of the CPU nothing there. Nothing is compiled for them. Source: csrc/adam/multi_tensor_adam.cu,
csrc/lion/multi_tensor_lion.cu, csrc/adam/cpu_adam.cpp, csrc/adagrad/cpu_adagrad.cpp, csrc/lion/cpu_lion.cpp.
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.late import once_imported
from every_byte.gpu.patches.replacing import Function, Undo, replaced

EXTENSION = "CUDA extension "
_OF_CUDA = (".cu", ".cuh")


_NOTHING = {
    "fused_adam": ("multi_tensor_adam",),
    "fused_lion": ("multi_tensor_lion",),
    "cpu_adam": ("create_adam", "adam_update", "adam_rollback", "destroy_adam"),
    "cpu_adagrad": ("create_adagrad", "adagrad_update", "destroy_adagrad"),
    "cpu_lion": ("create_lion", "lion_update", "destroy_lion"),
}
"""DeepSpeed's extensions whose functions take nothing from PyTorch's allocator, by name."""


def flag_extensions() -> Undo:
    """Let `torch.utils.cpp_extension.load` and `load_inline` flag what they build with CUDA's compiler.

    They build as ever, or fail where there is no such compiler: then the program may stop, or go another way than on a
    card. DeepSpeed's optimizers get functions that do nothing. Returns what undoes it.
    """
    return once_imported(
        {
            "torch.utils.cpp_extension": lambda module: replaced(module, "_jit_compile", _flagging),
            "deepspeed.ops.op_builder.builder": lambda module: replaced(module.OpBuilder, "load", _standing_in),
        }
    )


def _standing_in(original: Function) -> Function:
    def load(builder: Any, *args: Any, **kwargs: Any) -> Any:
        if standing_for_cuda() is None:
            return original(builder, *args, **kwargs)
        if builder.name == "utils":
            return SimpleNamespace(flatten=_flatten_dense_tensors, unflatten=_unflatten_dense_tensors)
        if builder.name in _NOTHING:
            return SimpleNamespace(**dict.fromkeys(_NOTHING[builder.name], _nothing))
        return original(builder, *args, **kwargs)

    return load


def _nothing(*args: Any, **kwargs: Any) -> None:
    """The kernel's arguments are there already."""


def _flagging(original: Function) -> Function:
    def compile_(name: str, sources: str | Sequence[str], *args: Any, **kwargs: Any) -> Any:
        mode = standing_for_cuda()
        names = [sources] if isinstance(sources, str) else sources
        if mode is not None and any(str(source).endswith(_OF_CUDA) for source in names):
            mode.not_modelled(
                f"{EXTENSION}{name}",
                f"the CUDA extension {name} is compiled while the program runs: what its kernels allocate is not "
                "known, and without CUDA's compiler here the program may stop or go another way than on a card.",
            )
        return original(name, sources, *args, **kwargs)

    return compile_

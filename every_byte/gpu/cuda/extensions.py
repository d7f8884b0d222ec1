"""CUDA extensions that a program compiles while it runs: flagged by name, for no kernel of theirs runs here."""

from collections.abc import Sequence
from typing import Any

from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.late import once_imported
from every_byte.gpu.patches.replacing import Function, Undo, replaced

EXTENSION = "CUDA extension "
_OF_CUDA = (".cu", ".cuh")


def flag_extensions() -> Undo:
    """Let `torch.utils.cpp_extension.load` and `load_inline` flag what they build with CUDA's compiler.

    They build as ever, or fail where there is no such compiler: then the program may stop, or go another way than on a
    card. Returns what undoes it.
    """
    return once_imported({"torch.utils.cpp_extension": lambda module: replaced(module, "_jit_compile", _flagging)})


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

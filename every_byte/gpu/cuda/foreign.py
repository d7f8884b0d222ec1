"""Libraries of CUDA kernels that a program loads by ctypes: stand-ins, whose functions do nothing.

They are given pointers to tensors that their caller has made, which count; here these point nowhere. What a library
allocates itself is known of few: those of bitsandbytes take nothing but managed memory, which lies outside of PyTorch's
allocator. Any other is flagged by name, with what was called. A library that is not one of CUDA's loads as ever.
"""

import ctypes
import mmap
import os
from pathlib import Path
from typing import Any

from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.late import once_imported
from every_byte.gpu.patches.replacing import Function, Undo, all_of, replaced

LIBRARY = "CUDA library "
_NEEDS_CUDA = (b"libcudart.so", b"libcublas.so", b"libcublasLt.so", b"libcuda.so", b"cudart64_", b"cublas64_")
_TAKES_NOTHING = "libbitsandbytes_"
"""How the name of a library begins whose functions are held to recordings."""

_TABLES = "name2qmap", "_code_4bit_cache"
"""The names under which bitsandbytes' modules keep tensors on the card, of which they make each once."""

_managed: list[mmap.mmap] = []
"""What the library never gives back, as on CUDA: pages of zeros, which the machine gives only once they are used."""


def stand_in_for_libraries() -> Undo:
    """Let `ctypes.CDLL` stand in for a library that needs CUDA's. Returns what undoes it."""
    remembering = "bitsandbytes.functional", "bitsandbytes.backends.utils", "bitsandbytes.backends.cuda.ops"
    forget = once_imported(dict.fromkeys(remembering, _forget_the_card))
    return all_of([replaced(ctypes.CDLL, "__init__", _loading), forget])


def _forget_the_card(module: Any) -> Undo:
    """What bitsandbytes keeps of a card is asked, or made, anew on the next one: its properties, and its tables."""

    def forget() -> None:
        for name, each in vars(module).items():
            if hasattr(each, "cache_clear"):
                each.cache_clear()
            elif name in _TABLES:
                each.clear()

    forget()
    return forget


def _loading(original: Function) -> Function:
    def load(library: Any, name: Any, *args: Any, **kwargs: Any) -> None:
        if standing_for_cuda() is None or not _needs_cuda(name):
            original(library, name, *args, **kwargs)
        else:
            library._name, library._handle, library._FuncPtr = os.fspath(name), 0, _Function

    return load


def _needs_cuda(name: Any) -> bool:
    """Whether a file is a library that is linked to one of CUDA's own."""
    if not isinstance(name, (str, os.PathLike)) or not (path := Path(name)).is_file():
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(content.find(needed) >= 0 for needed in _NEEDS_CUDA)


class _Function:
    """A function of a library that is not there: it does nothing and returns 0, which mostly means success."""

    def __init__(self, named: tuple[str, ctypes.CDLL]) -> None:
        self.name, self.library = named[0], Path(named[1]._name).name
        self.argtypes: Any = None
        self.restype: Any = ctypes.c_int

    def __call__(self, *args: Any) -> int | None:
        if self.library.startswith(_TAKES_NOTHING):
            if self.name == "cget_managed_ptr":
                return _managed_memory(args[0].value)
        elif (mode := standing_for_cuda()) is not None:
            mode.not_modelled(
                f"{LIBRARY}{self.library}",
                f"the CUDA library {self.library} was called ({self.name}) and did nothing: what it allocates itself, "
                "and what it would have written or answered, is not known.",
            )
        return None if self.restype is None else 0


def _managed_memory(n_bytes: int) -> int:
    """The address of so many bytes that the driver would page between the card and the host."""
    if (mode := standing_for_cuda()) is not None:
        mode.memory.trace.notes.managed_bytes += n_bytes
    _managed.append(mmap.mmap(-1, max(n_bytes, 1)))
    return ctypes.addressof(ctypes.c_char.from_buffer(_managed[-1]))

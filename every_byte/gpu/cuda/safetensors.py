"""Files of the library safetensors: written with holes where a simulated GPU's bytes would be, and mapped, not read.

Source: the format, github.com/huggingface/safetensors: eight bytes that say how long the header is, the header in JSON,
and the tensors' bytes behind one another.
"""

import json
import os
from types import ModuleType
from typing import Any

import torch

from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.late import once_imported
from every_byte.gpu.patches.replacing import Function, Undo, all_of, replaced

from .kept import saved_over
from .naming import HERE, named
from .storages import saving

_TYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2",
}  # fmt: skip


def keep_holes_in_safetensors() -> Undo:
    """Let `safetensors.torch.save_file` leave holes for what lies on the GPU. Returns what undoes it."""
    return once_imported({"safetensors.torch": _change})


def _change(module: ModuleType) -> Undo:
    return all_of([replaced(module, "save_file", _with_holes), replaced(module, "load_file", _by_way_of_the_host)])


def _by_way_of_the_host(original: Function) -> Function:
    """Tensors of the CPU are mapped; for those of a GPU the library reads the file."""

    def load_file(filename: str | os.PathLike[str], device: str | int = "cpu", **rest: Any) -> Any:
        if standing_for_cuda() is None or named(device) != HERE:
            return original(filename, device=device, **rest)
        return {name: x.to(device) for name, x in original(filename, device="cpu", **rest).items()}

    return load_file


def _with_holes(original: Function) -> Function:
    def save_file(
        tensors: dict[str, torch.Tensor], filename: str | os.PathLike[str], metadata: dict[str, str] | None = None
    ) -> None:
        if standing_for_cuda() is None or not any(x.is_cuda for x in tensors.values()):
            original(tensors, filename, metadata)
            return
        is_plain = all(x.dtype in _TYPES and x.is_contiguous() for x in tensors.values())

        def save(path: str | os.PathLike[str]) -> None:
            original({} if is_plain else tensors, path, metadata)  # what may not be written is refused there
            saving.left_hole = True
            if is_plain:
                write(tensors, path, metadata)

        saved_over(filename, save)

    return save_file


def write(tensors: dict[str, torch.Tensor], filename: str | os.PathLike[str], metadata: dict[str, str] | None) -> None:
    """Write a file of that format; of tensors on the GPU their place alone."""
    in_order = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    end = 0
    for name, x in in_order:
        start, end = end, end + x.nbytes
        header[name] = {"dtype": _TYPES[x.dtype], "shape": list(x.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(filename, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        data = file.tell()
        for name, x in in_order:
            if not x.is_cuda:
                file.seek(data + header[name]["data_offsets"][0])
                file.write(x.detach().view(-1).view(torch.uint8).numpy().tobytes())
        file.truncate(data + end)

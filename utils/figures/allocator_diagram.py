"""From the driver down to a tensor, as a diagram: who gets memory from whom, and which counter counts each level."""

import torch

from every_byte.gpu.protocol import GPU
from every_byte.units import short

from .diagram import Box, Diagram

_LEFT, _WIDTH, _HEIGHT, _ROW = 10, 158, 44, 84
_COUNTERS = 190  # where the words about a level begin
_STEPS = ("sells", "is cut into", "is lent to", "share it")
_COUNTED = {
    "segment": ("memory_reserved()", "reserved: bought, in use or not"),
    "block": ("memory_allocated()", "allocated: lent, whole blocks"),
    "storage": ("untyped_storage().nbytes()", "requested: what you asked for"),
}
_COLOURS = {"segment": "slate", "block": "orange", "storage": "cyan"}


def allocator_levels(gpu: GPU, tensor: torch.Tensor) -> Diagram:
    """Driver, segment, block, storage and tensor with the arrows between them, and what counts each, in bytes.

    The figures are those of an open GPU whose only tensor this is. The CUDA context, which PyTorch does not count, is
    next to them, without a figure.

    Unit: bytes of each level, rounded.
    """
    sizes = {
        "segment": short(gpu.memory_reserved()),
        "block": short(gpu.memory_allocated()),
        "storage": short(tensor.untyped_storage().nbytes()),
    }
    said = "; ".join(f"{level} {sizes[level]}, {_COUNTED[level][0]}" for level in sizes)
    alt = (
        "From the driver to a tensor. The driver sells segments to PyTorch, and keeps the CUDA context outside it. "
        f"A segment is cut into blocks, a block is lent to a storage, and tensors share the storage. {said}."
    )
    diagram = Diagram(alt, 16 + 4 * _ROW + _HEIGHT)
    above = diagram.box(_LEFT, 8, _WIDTH, _HEIGHT, "driver", "owns the card")
    context = diagram.box(262, 8, 168, _HEIGHT, "CUDA context", "outside PyTorch", dashed=True)
    diagram.arrow(above.right, context.left, dashed=True)
    diagram.text(430, 66, "nvidia-smi: context + segments", size=13, tone="faint", anchor="end")
    for row, (level, size) in enumerate(sizes.items(), start=1):
        box = diagram.box(_LEFT, 8 + _ROW * row, _WIDTH, _HEIGHT, level, size, colour=_COLOURS[level])
        _arrow(diagram, above.bottom, box.top, _STEPS[row - 1])
        _counted(diagram, box, *_COUNTED[level])
        above = box
    half = (_WIDTH - 10) / 2
    for place, name in enumerate(("tensor", "view")):
        box = diagram.box(_LEFT + (half + 10) * place, 8 + 4 * _ROW, half, _HEIGHT, name)
        diagram.arrow(box.top, (box.top[0], above.bottom[1]))
    diagram.text(_LEFT + _WIDTH / 2, 4 * _ROW - 12, _STEPS[-1], size=13, tone="faint", anchor="middle")
    _counted(diagram, box, "shape and strides", "no bytes of their own")
    return diagram


def _arrow(diagram: Diagram, start: tuple[float, float], end: tuple[float, float], words: str) -> None:
    diagram.arrow(start, end)
    diagram.text(start[0] + 8, (start[1] + end[1]) / 2, words, size=13, tone="faint")


def _counted(diagram: Diagram, box: Box, counter: str, meaning: str) -> None:
    diagram.text(_COUNTERS, box.y + 13, counter)
    diagram.text(_COUNTERS, box.y + 31, meaning, size=13, tone="faint")

"""What the compiler decides by timing kernels on the card: nobody knows it beforehand, and one policy stands for it.

Inductor pads a matrix product to multiples of a tensor core's if that is faster than the copy. Here none is padded, and
where it would have been tried, the report says so.
"""

from types import ModuleType

from every_byte.gpu.memory.attachment import attached
from every_byte.gpu.patches.late import once_imported
from every_byte.gpu.patches.replacing import Function, Undo, replaced

PADDING = "torch.compile's padding of matrix products"
_WHY = (
    "torch.compile pads some matrix products if, timed on the card, that is faster: here none is padded. A padded "
    "operand is a copy with up to 7 rows and columns more; torch._inductor.config.shape_padding = False never pads."
)


def decide_without_a_clock() -> Undo:
    """Pad no product. Returns what undoes it."""
    return once_imported({"torch._inductor.fx_passes.pad_mm": _pad_nothing})


def _pad_nothing(module: ModuleType) -> Undo:
    """Answer, where Inductor looks whether it has timed such a product before, that it has."""

    def never(_original: Function) -> Function:
        def get_cached_should_pad(_key: str) -> bool:
            attached()[-1].not_modelled(PADDING, _WHY)
            return False

        return get_cached_should_pad

    return replaced(module, "get_cached_should_pad", never)

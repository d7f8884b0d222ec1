"""What a GPT's step with remedies depends on, and what its blocks keep for backward, with adapters or without."""

from dataclasses import dataclass, replace

from every_byte.formula.formula import Selector, Term, TermRow

from .block import block_saved
from .decoder_settings import DecoderSettings, Widest


@dataclass(frozen=True, kw_only=True)
class GPTRemedySettings(DecoderSettings):
    """What a training step of a `GPT` with any remedy depends on beside its sizes: the fields of `DecoderSettings`.

    Raises: ValueError for a name that is not known.
    """

    family = "gpt"
    is_tied: bool = True


_LINEARS = ("attention.qkv", "attention.out", "mlp.up", "mlp.down")
PRODUCT = ("mlp: down input", "mlp: down input, reduced")
"""Of a block's terms those that `down` keeps, whose backward is the first."""


def gpt_block_saved(settings: DecoderSettings, blocks: str = "*", n: str = "L", n_behind: str = "") -> list[Term]:
    """What n blocks of a GPT, those of this number or all, keep for backward, sub-layer by sub-layer.

    Shapes: as `block_saved`; with adapters of rank r beside each Linear
    Counts: as `block_saved`. With adapters `n_behind` of the n have a trained one before them: the first norm of the
            first block has none, and keeps nothing. Not the random state of the efficient kernel, in CPU memory.
    Unit:   bytes, exact.
    """
    n_first = (n_behind or n) if settings.is_adapted else n
    block = block_saved(attention=settings.attention, activation="gelu", autocast=settings.is_autocast)
    terms = [term for term in block.terms if not _lies_on_cpu(term, settings)]
    terms += _reduced(settings) if settings.is_adapted else []
    return [_times(term, n_first if term.name.startswith("norm1") else n, blocks, settings) for term in terms]


def _lies_on_cpu(term: Term, settings: DecoderSettings) -> bool:
    return settings.attention == "efficient" and term.name == "attention: random state"


def _reduced(settings: DecoderSettings) -> list[Term]:
    """What each adapter makes of its Linear's input."""
    *three, down = (Selector(f"{name}.expand", "MmBackward*", "self") for name in _LINEARS)
    why = "weight gradients of the adapters"
    return [
        Term("adapters: reduced", "3*b*s*r", "e", tuple(three), why),
        Term("mlp: down input, reduced", "b*s*r", "e", (down,), why),
    ]


def _times(term: Term, n: str, blocks: str, settings: DecoderSettings) -> Term:
    """A block's term for n of them."""
    each = settings.element_bytes if term.element_bytes == "e" else term.element_bytes
    selectors = tuple(_inside(selector, blocks, settings) for selector in term.selectors)
    return replace(term, elements=f"({n})*({term.elements})", element_bytes=each, selectors=selectors)


def _inside(selector: Selector, blocks: str, settings: DecoderSettings) -> Selector:
    """What keeps the input of a frozen Linear is its adapter."""
    own = ".reduce" if settings.is_adapted and selector.module in _LINEARS else ""
    return replace(selector, module=f"blocks.{blocks}.{selector.module}{own}")


def gpt_norm_saved(module: str, settings: DecoderSettings) -> list[TermRow]:
    """What a LayerNorm keeps for backward: rows of name, size, element bytes, selectors and reason."""
    node = "NativeLayerNormBackward*"
    statistics = Selector(module, node, "result1"), Selector(module, node, "result2")
    return [
        (f"{module}: input", "b*s*d", settings.weight_bytes, (Selector(module, node, "input"),), "both gradients"),
        (f"{module}: statistics", "2*b*s", 4, statistics, "mean and 1/deviation, in float32"),
    ]


def positions_kept(settings: DecoderSettings) -> list[Term]:
    """The numbers of the positions, by which their embedding's gradient is laid out."""
    if settings.is_adapted or not settings.keeps_on_gpu:
        return []
    return [Term("positions", "s", 8, (Selector("positions", "EmbeddingBackward*", "indices"),), "int64")]


def widest(settings: DecoderSettings) -> Widest:
    """In `down`; or, if what it keeps is not there, in the activation's, whose input is back.

    With adapters `down` is two Linears, whose input has a gradient of each, and their sum.
    """
    if settings.is_adapted:
        return Widest("aten::add.Tensor", "ViewBackward*", "mlp.down.linear", 3)
    if settings.is_elsewhere:
        return Widest("aten::gelu_backward", "Gelu*", "mlp.activation", 3)
    return Widest("aten::mm", "MmBackward*", "mlp.down", 1, is_in_down=True)

"""What autograd keeps of a decoder's forward: of its blocks, of the last norm and head, and of the loss."""

from dataclasses import replace

from every_byte.formula.formula import Selector, Term

from .decoder_settings import FUSED, HALF, RECOMPUTED, DecoderSettings
from .families import family_of

OF_THE_LOSS = "loss: total weight"


def kept_after_forward(settings: DecoderSettings, in_autocast: bool = False) -> list[Term]:
    """All of it; in autocast's context the copies that it made for blocks stand as well."""
    if not settings.keeps_on_gpu:
        return shared(settings)
    inside = "" if settings.is_checkpointed and not in_autocast else f"L*({family_of(settings).weights}) + "
    has_head = in_autocast or not settings.takes_chunks
    size = f"{inside}{'V*d' if has_head else '0'}"
    copies = weight_copies(size) if settings.is_autocast and size != "0" else []
    return [
        *shared(settings),
        *kept_by_blocks(settings),
        *kept_by_norm(settings),
        *copies,
        *kept_by_loss(settings),
    ]


def shared(settings: DecoderSettings) -> list[Term]:
    """What all blocks use, or what lies before them: rotary tables in half precision, or the numbers of positions."""
    return family_of(settings).shared(settings)


def kept_by_blocks(settings: DecoderSettings) -> list[Term]:
    """Of each block all, or its input alone."""
    if not settings.is_checkpointed:
        return family_of(settings).block_saved(settings, n_behind="L - 1")
    return [_inputs(settings, "L")]


def kept_in_block(settings: DecoderSettings, is_first: bool, with_product: bool = False) -> list[Term]:
    """In the backward of the first block or the last one, where `down` has been gone through, or just before."""
    if not settings.keeps_on_gpu and not settings.is_checkpointed:
        return []
    gone = () if with_product else family_of(settings).product
    if is_first:
        own = [term for term in family_of(settings).block_saved(settings, "0", "1", "0") if term.name not in gone]
        has_input = settings.is_adapted and settings.is_checkpointed and settings.keeps_on_gpu  # nothing asks for it
        return [*own, _inputs(settings, "1")] if has_input else own
    if settings.is_checkpointed:
        own = [term for term in family_of(settings).block_saved(settings, "*", "1") if term.name not in gone]
        if not settings.keeps_on_gpu:
            return own
        first, *others = own  # the block's own input is one of those that are kept
        all_inputs = _inputs(settings, "L")
        return [replace(all_inputs, selectors=all_inputs.selectors + first.selectors), *others]
    of_others = {term.name: term for term in family_of(settings).block_saved(settings, "*", "L - 1")}
    terms = family_of(settings).block_saved(settings, "*", "L", "L - 1")
    return [of_others[term.name] if term.name in gone else term for term in terms]


def _inputs(settings: DecoderSettings, n: str) -> Term:
    given = (Selector("blocks*", "checkpoint", "inputs?0?"),)
    return Term("blocks: input", f"({n})*b*s*d", settings.weight_bytes, given, "of each, to run it again")


def kept_by_norm(settings: DecoderSettings) -> list[Term]:
    """Of the last norm and, for a head that is trained, of its input."""
    norm = [Term(*row) for row in family_of(settings).norm_saved("norm", settings)]
    if settings.takes_chunks or settings.is_adapted:
        return norm
    kept = (Selector("head", "MmBackward*", "self"),)
    return [*norm, Term("head: input", "b*s*d", settings.element_bytes, kept, "weight gradient of the head")]


def weight_copies(size: str) -> list[Term]:
    """Autocast's, in half precision."""
    return [Term("weight copies", size, 2, (Selector("*", "autocast copies", "*"),), "gradients of products' inputs")]


def kept_by_loss(settings: DecoderSettings) -> list[Term]:
    """What the loss keeps, by how it is made."""
    w = settings.weight_bytes
    if settings.loss == FUSED:
        of_h, of_weight = (Selector("", "ChunkedCrossEntropy*", f"tensors?{n}?") for n in (0, 1))
        kept = [Term("loss: gradient of h", "b*s*d", w, (of_h,), "made in forward")]
        of_head = Term("loss: gradient of the head", "V*d", w, (of_weight,), "made in forward")
        return kept if settings.is_adapted else [*kept, of_head]
    if settings.loss == RECOMPUTED:
        return [h_of_chunks(settings), Term("loss: count", "1", 8, (Selector("", "DivBackward*", "other"),), "int64")]
    result, given = Selector("", "LogSoftmaxBackward*", "result"), Selector("", "NllLossBackward*", "self")
    total = (Selector("", "NllLossBackward*", "total_weight"),)
    is_half = settings.loss == HALF and settings.element_bytes == 2
    each = 2 if is_half else 4
    why = "derivative of log_softmax, from its output"
    if is_half and settings.is_autocast:
        return [
            Term("loss: log-probabilities", "b*s*V", each, (result,), why),
            Term("loss: log-probabilities in float32", "b*s*V", 4, (given,), "nll_loss saves its input"),
            Term(OF_THE_LOSS, "1", 4, total, "how many targets the mean is over"),
        ]
    return [
        Term("loss: log-probabilities", "b*s*V", each, (result, given), why),
        Term(OF_THE_LOSS, "1", each, total, "how many targets the mean is over"),
    ]


def h_of_chunks(settings: DecoderSettings) -> Term:
    """What the head is run on once more."""
    kept = (Selector("", "checkpoint", "inputs?0?"),)
    return Term("loss: input", "b*s*d", settings.weight_bytes, kept, "of the head, to run it again")

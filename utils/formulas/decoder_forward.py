"""The closed form of a decoder's training step in forward and in its loss: every byte requested, with any remedy."""

from every_byte.formula.formula import Formula, Selector, Term

from .decoder_kept import (
    OF_THE_LOSS,
    h_of_chunks,
    kept_after_forward,
    kept_by_blocks,
    kept_by_loss,
    kept_by_norm,
    shared,
    weight_copies,
)
from .decoder_settings import FUSED, HALF, RECOMPUTED, DecoderSettings
from .decoder_standing import is_whole, loss_bytes, on_their_way, outputs, rows_of, standing
from .families import family_of

ROWS = "c"
"""How many rows a loss in chunks takes at a time; every form here is for at least two whole chunks."""


def decoder_after_forward(settings: DecoderSettings) -> Formula:
    """What a GPU holds when the forward of a training step of a `Llama` or a `GPT` has ended, every byte of it.

    Shapes: tokens[b, s], targets[b, s] -> L blocks of width d with a heads, g of keys and values, an MLP of f ->
            logits[b, s, V], loss; a context of s; adapters of rank r; chunks of c rows
    Counts: each storage once, after autocast's context was left. Not the allocator's rounding.
    Unit:   bytes, exact.
    Source: held to the simulated ledger, row by row, by tests/formulas/test_llama.py and test_remedies.py.
    """
    terms = (*standing(settings), *kept_after_forward(settings), *outputs(settings))
    return Formula(f"{title(settings)}: held after forward", terms)


def decoder_in_loss(settings: DecoderSettings) -> Formula:
    """What a GPU holds in the loss's forward, where it takes most.

    Of all logits these are there, their copy in float32 and the log-probabilities, at once; of chunks those of the last
    whole one.

    Shapes, Counts, Unit, Source: as `decoder_after_forward`.
    """
    parts = {FUSED: _in_fused, RECOMPUTED: _in_recomputed}.get(settings.loss, _in_whole)
    return Formula(f"{title(settings)}: held in the loss", (*standing(settings), *parts(settings)))


def _in_whole(settings: DecoderSettings) -> list[Term]:
    e, is_half = settings.element_bytes, settings.loss == HALF
    n = 2 if settings.holds_logits else 1  # those of the step before keep their name till these are returned
    made = f"{n * e}*b*s*V + {2 * loss_bytes(settings)}"  # this loss, and that of the step before
    logits = Term("logits and loss", made, 1, rows_of("outputs"), "the program has names for them, so far")
    given = ["4*b*s*V"] if e == 2 and not is_half else []
    if settings.is_autocast or settings.is_adapted or not settings.keeps_on_gpu:
        given.append(f"{settings.weight_bytes}*b*s*d")  # the head's input has a name
    if settings.keeps_on_gpu:
        given += _named(settings)
        saved = kept_after_forward(settings, in_autocast=True)
    else:
        saved = kept_after_forward(settings)
        total = 4 if settings.is_autocast else loss_bytes(settings)  # of targets
        given += [*_unpacked(settings), f"{e if is_half else 4}*b*s*V + {total}"]
    copies = [on_their_way(" + ".join(given), "in float32, and what has a name")] if given else []
    return [*saved, logits, *copies]


def _unpacked(settings: DecoderSettings) -> list[str]:
    """What has a name in forward, and is kept elsewhere: the last norm's input, tables, and numbers of positions."""
    if family_of(settings).positions:
        return [f"{settings.weight_bytes}*b*s*d", "8*s"]
    tables = [] if settings.is_checkpointed or settings.weight_bytes == 4 else ["4*s*d/a"]
    return [f"{settings.weight_bytes}*b*s*d", *tables]


def _named(settings: DecoderSettings) -> list[str]:
    """What has a name in forward, and is kept by nothing, if what is kept stays: numbers of frozen positions."""
    return ["8*s"] if settings.is_adapted and settings.keeps_on_gpu and family_of(settings).positions else []


def _before_loss(settings: DecoderSettings) -> list[Term]:
    if not settings.keeps_on_gpu:
        return shared(settings)
    inside = "0" if settings.is_checkpointed and not settings.is_autocast else f"L*({family_of(settings).weights})"
    copies = weight_copies(f"{inside} + V*d") if settings.is_autocast else []
    return [*shared(settings), *kept_by_blocks(settings), *kept_by_norm(settings), *copies]


def _in_fused(settings: DecoderSettings) -> list[Term]:
    w = settings.weight_bytes
    of_chunk = f"8*{ROWS}*V + 17*{ROWS}"  # logits and their exponents
    kept, more = kept_by_loss(settings), _named(settings)
    if not settings.keeps_on_gpu:  # the gradients leave when all of them are made
        kept, more = [], [*_unpacked(settings), f"{w}*({_fused_gradients(settings)})"]
    size = " + ".join([f"{w}*b*s*d + 12 + {of_chunk}", *more])
    loss = Term("loss", str(loss_bytes(settings)), 1, rows_of("outputs"), "of the step before")
    return [*_before_loss(settings), *kept, loss, on_their_way(size, "h, and a chunk of logits")]


def _in_recomputed(settings: DecoderSettings) -> list[Term]:
    sums = f"4*(up((b*s + 1)/{ROWS}, 1) - 1) + 4"  # the losses of whole chunks so far, and a number of targets
    given = _named(settings)
    if not settings.keeps_on_gpu:
        given = [f"{settings.weight_bytes}*b*s*d", *_unpacked(settings)]
    kept = [h_of_chunks(settings)] if settings.keeps_on_gpu else []
    loss = Term("loss", str(loss_bytes(settings)), 1, rows_of("outputs"), "of the step before")
    size = " + ".join([f"8*{ROWS}*V + {sums}", *given])
    return [*_before_loss(settings), *kept, loss, on_their_way(size, "a chunk's logits and log-probabilities")]


def decoder_in_loss_backward(settings: DecoderSettings) -> Formula:
    """What a GPU holds while backward goes through the loss, where it takes most.

    Of all logits both gradients are there, those of the log-probabilities and of the logits, in the logits' type in
    which they went into the loss; of chunks that run again the same of the first, which comes last, beside the head's
    gradient so far. The fused loss has made its gradients in forward: that of h is multiplied.

    Shapes, Counts, Unit, Source: as `decoder_after_forward`.
    """
    terms = (*standing(settings), *_loss_backward(settings), *outputs(settings))
    return Formula(f"{title(settings)}: held in the loss's backward", terms)


def _loss_backward(settings: DecoderSettings) -> list[Term]:
    w = settings.weight_bytes
    if settings.loss == FUSED:
        way = on_their_way(_of_fused(settings), "gradient of h")
        return [*kept_after_forward(settings), way]
    if settings.loss == RECOMPUTED:
        return _chunk_backward(settings)
    if settings.loss == HALF and settings.is_autocast:
        return [*kept_after_forward(settings), on_their_way("4*b*s*V + 4", "gradient of the log-probabilities")]
    each = 2 if settings.loss == HALF and w == 2 else 4
    saved = [term for term in kept_after_forward(settings) if term.name != OF_THE_LOSS]  # nll_loss has been through
    why = "gradients of the log-probabilities, and of the logits"
    if settings.keeps_on_gpu:
        return [*saved, on_their_way(f"{each}*(2*b*s*V + 1)", why)]
    return [*saved, on_their_way(f"{each}*(3*b*s*V + 1)", f"{why}; log-probabilities")]


def _one(settings: DecoderSettings) -> int:
    """The loss's gradient in half precision."""
    return 2 if settings.weight_bytes == 2 else 0


def _of_fused(settings: DecoderSettings) -> str:
    """Of its own gradients that of h, multiplied; and those that are back from the host."""
    back = "" if settings.keeps_on_gpu else f" + {_fused_gradients(settings)}"
    return f"{settings.weight_bytes}*(b*s*d{back}) + {_one(settings)} + 4"


def _fused_gradients(settings: DecoderSettings) -> str:
    return "b*s*d" if settings.is_adapted else "b*s*d + V*d"


def _chunk_backward(settings: DecoderSettings) -> list[Term]:
    w, e = settings.weight_bytes, settings.element_bytes
    chunk = (Selector("", "LogSoftmaxBackward*", "result"),)
    h = Selector("", "MmBackward*", "self")
    kept = [Term("loss: log-probabilities", f"{ROWS}*V", 4, chunk, "of a chunk")]
    copies = []
    if settings.is_autocast:
        copies = weight_copies("V*d" if settings.is_checkpointed else f"L*({family_of(settings).weights}) + V*d")
        kept.append(Term("loss: input in half precision", f"{ROWS}*d", 2, (h,), "of a chunk"))
    if not settings.keeps_on_gpu:
        if not settings.is_adapted:
            kept.append(Term("loss: input", f"{ROWS}*d", e, (h,), "back from the host"))
        kept.append(_weight_back(settings))
    behind = f"{w}*(b*s - {ROWS})*d + 8*{ROWS}*V + 4"
    stays = [*kept_by_blocks(settings), *kept_by_norm(settings), h_of_chunks(settings)] if settings.keeps_on_gpu else []
    way = _with_head(settings, behind, "gradients of a chunk, of h and the head", is_sum=settings.n_chunks > 2)
    return [*shared(settings), *stays, *copies, *kept, *way]


def _weight_back(settings: DecoderSettings) -> Term:
    """The head's weight, an input of each chunk's checkpoint: a copy that came back from the host."""
    weight = (Selector("", "MmBackward*", "mat2"),)
    return Term("loss: weight", "V*d", settings.element_bytes, weight, "back from the host")


def _with_head(settings: DecoderSettings, size: str, why: str, is_sum: bool = True) -> list[Term]:
    """What is on its way in bytes, and the head's gradient: one, or the sum of several; it may be what stays."""
    is_fused = settings.loss == FUSED  # whose gradient is in the weight's type, not in autocast's
    of_head = f"{settings.weight_bytes if is_fused else settings.element_bytes}*V*d"
    if settings.is_adapted:
        return [on_their_way(size, why)]
    if (settings.is_autocast and not is_fused) or settings.has_others or settings.adds_up_apart or not is_sum:
        return [on_their_way(f"{size} + {of_head}", why)]
    return [Term("head's gradient", of_head, 1, rows_of("gradients"), "which stays"), on_their_way(size, why)]


def decoder_in_head(settings: DecoderSettings) -> Formula:
    """What a GPU holds in the head's backward, where it takes most.

    Of all logits that is behind both products, of chunks that run again where two gradients of the head are added up to
    a third, of the fused loss where the head's gradient is multiplied.

    Shapes, Counts, Unit, Source: as `decoder_after_forward`.
    """
    terms = (*standing(settings), *_head_backward(settings), *outputs(settings))
    return Formula(f"{title(settings)}: held in the head's backward", terms)


def _head_backward(settings: DecoderSettings) -> list[Term]:
    e, kept = settings.element_bytes, kept_after_forward(settings)
    if settings.loss == FUSED:
        return [*kept, *_with_head(settings, _of_fused(settings), "gradients of h and the head")]
    if is_whole(settings):
        lost = {term.name for term in kept_by_loss(settings)}
        stays = [term for term in kept if term.name not in lost]
        back = "" if settings.keeps_on_gpu else " + V*d" if settings.is_adapted else " + V*d + b*s*d"
        size = f"{e}*(b*s*V + b*s*d{back}) + {loss_bytes(settings)}"
        return [*stays, *_with_head(settings, size, "gradients of logits, h and the head")]
    return _chunk_head(settings, kept)


def _chunk_head(settings: DecoderSettings, kept: list[Term]) -> list[Term]:
    w, e = settings.weight_bytes, settings.element_bytes
    stays = [term for term in kept if term.name != "loss: count"]
    if settings.is_adapted:
        weight = [] if settings.keeps_on_gpu else [_weight_back(settings)]
        return [*stays, *weight, on_their_way(f"{w}*b*s*d + {e}*{ROWS}*V + 4", "gradients of a chunk, and of h")]
    if settings.n_chunks == 2:  # the second is the last, which has let the head's input go
        stays = [term for term in stays if term.name != "loss: input"]
    behind = "b*s" if settings.n_chunks == 2 else f"(b*s - {ROWS}*(up(b*s/{ROWS}, 1) - 2))"
    ones = 4 if settings.n_chunks == 2 else 8
    half = f" - 2*{ROWS}*d" if settings.is_autocast else ""  # that of this chunk is in half precision yet
    size = f"{w}*{behind}*d{half} + {2 * e}*V*d + {ones}"
    return [*stays, *_with_head(settings, size, "gradients of the head, and of h")]


def title(settings: DecoderSettings) -> str:
    """What a formula's own title begins with."""
    checkpoint = ", checkpoint of every block" if settings.is_checkpointed else ""
    return f"{family_of(settings).name}, {settings.precision}, {settings.attention}{checkpoint}"

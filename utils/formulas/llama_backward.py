"""The closed form of a decoder's training step behind its loss: in blocks, in the embedding and in the optimizer."""

from dataclasses import replace

from every_byte.formula.formula import Formula, Term

from .decoder_settings import DecoderSettings
from .llama import title
from .llama_counts import (
    in_step_size,
    one_step_size,
    trained_count,
)
from .llama_kept import kept_by_blocks, kept_by_norm, kept_in_block, shared, weight_copies
from .llama_standing import gradients, has_masters, loss_bytes, on_their_way, outputs, standing
from .shapes import shape_of


def llama_in_last_block(settings: DecoderSettings) -> Formula:
    """What a GPU holds in the last block's backward, the first to run, where its MLP takes most for itself.

    Shapes, Counts, Unit, Source: as `llama_in_first_block`.
    """
    return _in_block(settings, is_first=False)


def llama_in_first_block(settings: DecoderSettings) -> Formula:
    """What a GPU holds in the first block's backward, the last to run, where its MLP takes most for itself.

    That is where silu and up have got their gradients, and the product of both has its own still. All weights behind it
    have gradients; the embedding, and the block itself but for `down`, have none yet.

    Shapes, Counts, Unit, Source: as `llama_after_forward`; two blocks at least.
    """
    return _in_block(settings, is_first=True)


def _in_block(settings: DecoderSettings, *, is_first: bool) -> Formula:
    w, e = settings.weight_bytes, settings.element_bytes
    count, waiting = _gradients_in_block(settings, is_first)
    fresh = [] if settings.holds_gradients or count == "0" else [gradients(count, settings, "of what comes behind")]
    elsewhere = not settings.keeps_on_gpu and not settings.is_checkpointed
    shape = shape_of(settings)
    n = shape.n_wide + (shape.n_back if elsewhere else 0)
    way = on_their_way(f"{n}*b*s*f*{e} + b*s*d*{w}{waiting} + {loss_bytes(settings)}", "gradients in the MLP, and of x")
    copies = []
    if settings.is_autocast:
        others = "" if is_first or settings.is_checkpointed else f"(L - 1)*({shape_of(settings).weights}) + "
        copies = weight_copies(f"{others}{shape_of(settings).weights} - d*f")
    kept = [*shared(settings), *kept_in_block(settings, is_first)]
    name = f"{title(settings)}: held in the {'first' if is_first else 'last'} block's backward"
    return Formula(name, (*standing(settings), *kept, *copies, *outputs(settings), *fresh, way))


def llama_in_down(settings: DecoderSettings) -> Formula:
    """What a GPU holds in the last block's backward where the first of its weights, that of `down`, has its gradient.

    With a step in backward that weight's step runs then; what `down` kept has gone. With adapters, whose gradients are
    small, and under autocast, it is the moment of `llama_in_last_block`.

    Counts: as `llama_in_first_block`; in the 8-bit optimizer's step floats for m numbers.
    Shapes, Unit, Source: as `llama_after_forward`.
    """
    name = f"{title(settings)}: held where the last block has its first gradient"
    if settings.is_adapted or settings.is_autocast:
        return replace(llama_in_last_block(settings), title=name)
    w, e = settings.weight_bytes, settings.element_bytes
    size = one_step_size(settings, "d*f") if settings.gradients_go else "0"
    steps = size != "0"
    elsewhere = not settings.keeps_on_gpu and not settings.is_checkpointed
    back = 0 if steps or not elsewhere else 1  # what down kept, and its weight, are back from the host
    count, waiting = _gradients_in_block(settings, is_first=False)
    gone = "d*f" if settings.gradients_go and count == "0" else f"{count} + d*f" if settings.gradients_go else count
    # up's step is the higher one then, by its input's gradient
    input_too = f" + {e}*b*s*d" if steps and elsewhere and shape_of(settings).step_of_input else ""
    taken = (f" + {size}{input_too}" if steps else "") + (f" + {w}*d*f" if settings.has_others else "")
    way = f"{1 + back}*b*s*f*{e} + {back}*d*f*{e} + b*s*d*{w}{waiting} + {loss_bytes(settings)}{taken}"
    kept = kept_in_block(settings, is_first=False, with_product=not steps)
    fresh = [] if settings.has_others else [gradients(gone, settings, "of what comes behind, and of down")]
    terms = (*standing(settings), *shared(settings), *kept, *outputs(settings), *fresh)
    return Formula(name, (*terms, on_their_way(way, "gradients of the product and of x")))


def _gradients_in_block(settings: DecoderSettings, is_first: bool) -> tuple[str, str]:
    """How many gradients are there, and the bytes of the head's that waits for the embedding's, as a summand."""
    w = settings.weight_bytes
    waits = settings.is_tied and not settings.is_adapted
    waits_alone = settings.adds_up_apart or (waits and settings.has_others)
    waiting = f" + V*d*{w}" if waits_alone else ""
    if settings.gradients_go:
        return ("V*d" if waits and not waits_alone else "0"), waiting
    if settings.is_adapted:
        return (f"(L - 1)*{shape_of(settings).adapter_weights} + r*(d + f)" if is_first else "r*(d + f)"), waiting
    head = "0" if settings.adds_up_apart else "V*d"
    behind = f"(L - 1)*({shape_of(settings).weights} + 2*d) + " if is_first else ""
    return f"{behind}{head} + d + d*f", waiting


def llama_in_embedding(settings: DecoderSettings) -> Formula:
    """What a GPU holds where backward ends, in the token embedding: every weight has its gradient.

    Counts: as `llama_after_forward`. Of more than 3,072 tokens (`sorts`) the kernel sorts them, and adds up parts of
            ten: for up to V tokens, a width of 1,024 at least and, with a tied head, 1.1 b s <= V/2 in half precision.
    Shapes, Unit, Source: as `llama_after_forward`.
    """
    w, count = settings.weight_bytes, trained_count(settings)
    name = f"{title(settings)}: held in the embedding's backward"
    if settings.gradients_go:
        count = "0" if settings.is_adapted else "V*d"
    stays = settings.has_others
    fresh = [] if stays or count == "0" else [gradients(count, settings, "of all that is trained")]
    if settings.is_adapted:
        return Formula(name, (*standing(settings), *outputs(settings), *fresh))
    adds = settings.adds_up_apart
    n_on_their_way = 1 + settings.is_tied + adds - (not stays)
    x = "" if adds else " + b*s*d"
    sums = f" + {SORTED}" if settings.sorts and not adds else ""
    back = "" if settings.keeps_on_gpu or adds else " + 8*b*s"  # the tokens
    size = f"{w}*({n_on_their_way}*V*d{x}) + {loss_bytes(settings)}{sums}{back}"
    way = on_their_way(size, "gradients of the embedding that do not stay, and of x")
    return Formula(name, (*standing(settings), *outputs(settings), *fresh, way))


SORTED = "40*b*s + 16 + (8 + 4*d)*(b*s + up((b*s - 9)/10, 1))"
"""Lists of tokens, sorted and not, in bytes, and the sums of parts, in float32: one for each token, and each ten."""


def llama_in_step(settings: DecoderSettings) -> Formula:
    """What a GPU holds in the optimizer's step, all gradients among it, where its form takes most for itself.

    With a step in backward, or gradients that leave in backward, that is where the head's is taken; the embedding's, if
    it is tied to it; with adapters, which are small, the end of backward.

    Counts: as `llama_after_forward`; matrices in a group of parameters of their own, as `adamw` of
            utils.experiments.training has them; for the loop, a vocabulary of at least 2d and 2f.
    Shapes, Unit, Source: as `llama_after_forward`.
    """
    name = f"{title(settings)}: held in the optimizer's step"
    if settings.gradients_go:
        return Formula(name, (*standing(settings), *_one_step(settings), *outputs(settings)))
    stands = standing(replace(settings, holds_gradients=False))
    count = trained_count(settings)
    both = f"{count} + 2*({count})" if has_masters(settings) else count  # float32 has two of these numbers' bytes
    terms = [gradients(both, settings, "one for each parameter, and for each master"), *outputs(settings)]
    size = in_step_size(settings)
    if size != "0":
        terms.append(on_their_way(size, "of the optimizer"))
    return Formula(name, (*stands, *terms))


def _one_step(settings: DecoderSettings) -> list[Term]:
    size = one_step_size(settings)
    if settings.is_adapted or size == "0":
        return []
    w = settings.weight_bytes
    if settings.is_tied:
        return [
            gradients("V*d", settings, "the embedding's"),
            on_their_way(f"{size} + {loss_bytes(settings)}", "its step"),
        ]
    kept = []
    if settings.keeps_on_gpu:
        norm = [term for term in kept_by_norm(settings) if term.name.startswith("norm")]
        kept = [*kept_by_blocks(settings), *norm]
    copies = []
    if settings.is_autocast and not settings.is_checkpointed:
        copies = weight_copies(f"L*({shape_of(settings).weights})")
    way = on_their_way(f"{w}*b*s*d + {size} + {loss_bytes(settings)}", "gradient of h, and the head's step")
    return [*shared(settings), *kept, *copies, gradients("V*d", settings, "the head's"), way]

"""The closed form of a decoder's training step behind its loss: in blocks, in the embedding and in the optimizer."""

from dataclasses import replace

from every_byte.formula.formula import Formula, Term

from .decoder_counts import (
    in_step_size,
    one_step_size,
    trained_count,
)
from .decoder_forward import title
from .decoder_kept import kept_by_blocks, kept_by_norm, kept_in_block, shared, weight_copies
from .decoder_settings import DecoderSettings
from .decoder_standing import gradients, has_masters, loss_bytes, on_their_way, outputs, standing
from .families import family_of


def decoder_in_last_block(settings: DecoderSettings) -> Formula:
    """What a GPU holds in the last block's backward, the first to run, where its MLP takes most for itself.

    Shapes, Counts, Unit, Source: as `decoder_in_first_block`.
    """
    return _in_block(settings, is_first=False)


def decoder_in_first_block(settings: DecoderSettings) -> Formula:
    """What a GPU holds in the first block's backward, the last to run, where its MLP takes most for itself.

    Where that is depends on the family, and is said by its `widest`. All weights behind it have gradients; the
    embedding, and the block itself but for `down`, have none yet.

    Shapes, Counts, Unit, Source: as `decoder_after_forward`; two blocks at least.
    """
    return _in_block(settings, is_first=True)


def _in_block(settings: DecoderSettings, *, is_first: bool) -> Formula:
    name = f"{title(settings)}: held in the {'first' if is_first else 'last'} block's backward"
    widest = family_of(settings).widest(settings)
    if widest.is_in_down:
        return Formula(name, tuple(_in_down(settings, is_first)))
    w, e = settings.weight_bytes, settings.element_bytes
    count, waiting = _gradients_in_block(settings, is_first)
    fresh = [] if settings.holds_gradients or count == "0" else [gradients(count, settings, "of what comes behind")]
    way = on_their_way(
        f"{widest.n_wide}*b*s*f*{e} + b*s*d*{w}{waiting} + {loss_bytes(settings)}", "gradients in the MLP, and of x"
    )
    copies = _copies_in_block(settings, is_first, " - d*f") if settings.is_autocast else []
    kept = [*shared(settings), *kept_in_block(settings, is_first)]
    return Formula(name, (*standing(settings), *kept, *copies, *outputs(settings), *fresh, way))


def _copies_in_block(settings: DecoderSettings, is_first: bool, less: str = "") -> list[Term]:
    """Autocast's of weights, in a block's backward."""
    weights = family_of(settings).weights
    others = "" if is_first or settings.is_checkpointed else f"(L - 1)*({weights}) + "
    return weight_copies(f"{others}{weights}{less}")


def most_in_last_forward(settings: DecoderSettings) -> Formula:
    """What a GPU holds in the last block's forward at most, if autocast is on and each block runs through a checkpoint.

    Counts: of the block all that it keeps when it runs again, which is more than what it has in forward; with copies of
            all blocks' weights, which autocast's context has there, and not in backward.
    Shapes, Unit: as `decoder_after_forward`.
    """
    copies = weight_copies(f"L*({family_of(settings).weights})")
    kept = [*shared(settings), *kept_in_block(settings, is_first=False, with_product=True), *copies]
    return Formula(f"{title(settings)}: at most in forward", (*standing(settings), *kept, *outputs(settings)))


def decoder_in_down(settings: DecoderSettings) -> Formula:
    """What a GPU holds in the last block's backward where the first of its weights, that of `down`, has its gradient.

    With a step in backward that weight's step runs then; what `down` kept has gone. With adapters, whose gradients are
    small, and under autocast, it is the moment of `decoder_in_last_block`.

    Counts: as `decoder_in_first_block`; in the 8-bit optimizer's step m bytes of floats.
    Shapes, Unit, Source: as `decoder_after_forward`.
    """
    name = f"{title(settings)}: held where the last block has its first gradient"
    if settings.is_adapted or settings.is_autocast:
        return replace(decoder_in_last_block(settings), title=name)
    size = one_step_size(settings, "d*f") if settings.gradients_go else "0"
    return Formula(name, tuple(_in_down(settings, is_first=False, step=size)))


def _in_down(settings: DecoderSettings, is_first: bool, step: str = "0") -> list[Term]:
    """Where the weight of `down` has its gradient: in its type, which under autocast is not that of what stays.

    In its step, of so many bytes, what `down` kept has gone.
    """
    w, e, steps = settings.weight_bytes, settings.element_bytes, step != "0"
    count, waiting = _gradients_in_block(settings, is_first, has_down=not settings.is_autocast)
    own, more = [], []
    if settings.is_autocast:
        own, more = _copies_in_block(settings, is_first), [f"{e}*(b*s*d + d*f)"]  # the gradient of y in half precision
    elif settings.has_others:
        more = [f"{w}*d*f"]
    elif settings.gradients_go:
        count = "d*f" if count == "0" else f"{count} + d*f"
    if steps:
        # up's step is the higher one where nothing is kept here, by its input's gradient
        more += [step, *([f"{e}*b*s*d"] if settings.is_elsewhere and family_of(settings).step_of_input else [])]
    back = int(settings.is_elsewhere and not steps)  # what down kept, and its weight, are back from the host
    wide = f"{1 + back}*b*s*f*{e} + {back}*d*f*{e}"
    size = " + ".join([wide, f"b*s*d*{w}{waiting}", str(loss_bytes(settings)), *more])
    fresh = [] if settings.has_others or count == "0" else [gradients(count, settings, "of what comes behind")]
    kept = [*shared(settings), *kept_in_block(settings, is_first, with_product=not steps)]
    way = on_their_way(size, "gradients of what down has got, and of x")
    return [*standing(settings), *kept, *own, *outputs(settings), *fresh, way]


def _gradients_in_block(settings: DecoderSettings, is_first: bool, has_down: bool = True) -> tuple[str, str]:
    """How many gradients are there, and the bytes of the head's that waits for the embedding's, as a summand."""
    w = settings.weight_bytes
    waits = settings.is_tied and not settings.is_adapted
    waits_alone = settings.adds_up_apart or (waits and settings.has_others)
    waiting = f" + V*d*{w}" if waits_alone else ""
    if settings.gradients_go:
        return ("V*d" if waits and not waits_alone else "0"), waiting
    if settings.is_adapted:
        adapters = family_of(settings).adapter_weights
        return (f"(L - 1)*{adapters} + r*(d + f)" if is_first else "r*(d + f)"), waiting
    head = "0" if settings.adds_up_apart else "V*d"
    behind = f"(L - 1)*({family_of(settings).weights} + 2*d) + " if is_first else ""
    return f"{behind}{head} + d{' + d*f' if has_down else ''}", waiting


def decoder_in_embedding(settings: DecoderSettings) -> Formula:
    """What a GPU holds where backward ends, in the token embedding: every weight has its gradient.

    Counts: as `decoder_after_forward`. Of more than 3,072 tokens (`sorts`) the kernel sorts them, and adds up parts of
            ten, which take more than the sort: for a width of 768 at least. With a tied head whose gradient is added up
            apart, that sum is the moment, whatever the parts have taken before.
    Shapes, Unit, Source: as `decoder_after_forward`.
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
    sums = f" + {sorted_size(settings)}" if settings.sorts and not adds else ""
    back = "" if settings.keeps_on_gpu or adds else " + 8*b*s"  # the tokens
    size = f"{w}*({n_on_their_way}*V*d{x}) + {loss_bytes(settings)}{sums}{back}"
    way = on_their_way(size, "gradients of the embedding that do not stay, and of x")
    return Formula(name, (*standing(settings), *outputs(settings), *fresh, way))


def sorted_size(settings: DecoderSettings) -> str:
    """Lists of tokens, sorted and not, and the sums of parts, in float32: one for each word, and each ten tokens.

    Counts: as if each token were a word of its own, which is what room is made for, of V at most.
    Unit:   bytes.
    """
    words, lists = ("V", "24*b*s + 16*V") if settings.repeats else ("b*s", "40*b*s")
    return f"{lists} + 16 + (8 + 4*d)*({words} + up((b*s - 9)/10, 1))"


def decoder_in_step(settings: DecoderSettings) -> Formula:
    """What a GPU holds in the optimizer's step, all gradients among it, where its form takes most for itself.

    With a step in backward, or gradients that leave in backward, that is where the head's is taken; the embedding's, if
    it is tied to it; with adapters, which are small, the end of backward.

    Counts: as `decoder_after_forward`; matrices in a group of parameters of their own, as `adamw` of
            utils.experiments.training has them; for the loop, a vocabulary of at least 2d and 2f.
    Shapes, Unit, Source: as `decoder_after_forward`.
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
        copies = weight_copies(f"L*({family_of(settings).weights})")
    way = on_their_way(f"{w}*b*s*d + {size} + {loss_bytes(settings)}", "gradient of h, and the head's step")
    return [*shared(settings), *kept, *copies, gradients("V*d", settings, "the head's"), way]

"""The closed form of a Llama's training step: every byte requested at the end of forward and at its high points."""

from dataclasses import replace

from every_byte.formula.formula import Formula, Selector, Term

from .llama_block import BLOCK_WEIGHTS, LlamaSettings, llama_block_saved, llama_parameter_count, norm_saved
from .settings import STATES, STEP_BYTES


def llama_after_forward(settings: LlamaSettings) -> Formula:
    """What a GPU holds when the forward of a training step of a `Llama` has ended, every byte of it.

    Shapes: tokens[b, s], targets[b, s] -> L blocks of width d with a heads, g of keys and values, an MLP of f ->
            logits[b, s, V], loss; a context of s
    Counts: each storage once, all parameters trained, after autocast's context was left; the loss of `whole_logits`.
            Not the allocator's rounding.
    Unit:   bytes, exact.
    Source: held to the simulated ledger, row by row, by tests/formulas/test_llama.py.
    """
    terms = (*_standing(settings), *_saved(settings), *_outputs(settings))
    return Formula(f"{_title(settings)}: held after forward", terms)


def llama_in_loss(settings: LlamaSettings) -> Formula:
    """What a GPU holds in the loss's forward: logits, their copy in float32 and the log-probabilities, all at once.

    Shapes, Counts, Unit, Source: as `llama_after_forward`; the loss itself has been made as well.
    """
    e = settings.element_bytes
    n = 2 if settings.holds_logits else 1  # those of the step before keep their name till these are returned
    made = f"{n * e}*b*s*V + 8"  # the loss, and over how many targets it is a mean
    logits = Term("logits and loss", made, 1, _rows("outputs"), "the program has names for them, so far")
    given = (["4*b*s*V"] if e == 2 else []) + (["4*b*s*d"] if settings.is_autocast else [])
    copies = (
        [Term("in float32", " + ".join(given), 1, _rows("temporaries"), "logits, and autocast's h")] if given else []
    )
    saved = [term for term in _saved(settings, in_autocast=True) if term.name != "loss: total weight"]
    return Formula(f"{_title(settings)}: held in the loss", (*_standing(settings), *saved, logits, *copies))


def llama_in_loss_backward(settings: LlamaSettings) -> Formula:
    """What a GPU holds while backward goes through the loss: both gradients are there, in float32.

    Shapes, Counts, Unit, Source: as `llama_after_forward`.
    """
    saved = [
        term for term in _saved(settings) if term.name != "loss: total weight"
    ]  # nll_loss has been through by then
    on_their_way = Term(
        "gradients on their way", "2*b*s*V + 1", 4, _rows("temporaries"), "of the log-probabilities, and of the logits"
    )
    terms = (*_standing(settings), *saved, *_outputs(settings), on_their_way)
    return Formula(f"{_title(settings)}: held in the loss's backward", terms)


def llama_in_first_block(settings: LlamaSettings) -> Formula:
    """What a GPU holds in the first block's backward, the last to run, where its MLP takes most for itself.

    That is where silu and up have got their gradients, and the product of both has its own still. All weights behind it
    have gradients; the embedding, and the block itself but for `down`, have none yet.

    Shapes, Counts, Unit, Source: as `llama_after_forward`.
    """
    w, e = settings.weight_bytes, settings.element_bytes
    embedding = "0" if settings.is_tied and settings.is_autocast else "V*d"
    count = f"{llama_parameter_count(is_tied=settings.is_tied).text} - {embedding} - ({BLOCK_WEIGHTS} + 2*d) + d*f"
    waits = settings.is_tied and (settings.holds_gradients or not settings.is_autocast)
    waiting = f" + V*d*{w}" if waits else ""  # the head's, for the embedding's
    fresh = [] if settings.holds_gradients else [("gradients", count, w, "gradients", "of what comes behind")]
    size = f"3*b*s*f*{e} + b*s*d*{w}{waiting} + 4"
    rows = [*fresh, ("gradients on their way", size, 1, "temporaries", "of silu, up, their product and x")]
    kept = [term for term in llama_block_saved(settings, "0", "1") if term.name != "mlp: product"]
    tables = _tables_in_half(settings)
    copies = _copies(settings, f"{BLOCK_WEIGHTS} - d*f") if settings.is_autocast else []
    terms = [Term(name, size, each, _rows(category), why) for name, size, each, category, why in rows]
    title = f"{_title(settings)}: held in the first block's backward"
    return Formula(title, (*_standing(settings), *tables, *kept, *copies, *_outputs(settings), *terms))


def llama_in_embedding(settings: LlamaSettings) -> Formula:
    """What a GPU holds where backward ends, in the token embedding: every weight has its gradient.

    Counts: as `llama_after_forward`, for b s up to 3072 tokens: for more, the kernel sorts them, in buffers of its own.
    Shapes, Unit, Source: as `llama_after_forward`.
    """
    w, count = settings.weight_bytes, llama_parameter_count(is_tied=settings.is_tied).text
    n_on_their_way = int(settings.holds_gradients)
    if settings.is_tied:  # of the head and of the embedding; their sum is a third but under autocast
        n_on_their_way = 2 + (not settings.is_autocast) - (not settings.holds_gradients)
    x = "" if settings.is_tied and not settings.is_autocast else " + b*s*d"
    terms = [] if settings.holds_gradients else [Term("gradients", count, w, _rows("gradients"), "of all weights")]
    why = "the embedding's that do not stay, and that of x"
    terms.append(Term("gradients on their way", f"{w}*({n_on_their_way}*V*d{x}) + 4", 1, _rows("temporaries"), why))
    title = f"{_title(settings)}: held in the embedding's backward"
    return Formula(title, (*_standing(settings), *_outputs(settings), *terms))


def llama_in_step(settings: LlamaSettings) -> Formula:
    """What a GPU holds in the optimizer's step, all gradients among it, where its form takes most for itself.

    Counts: as `llama_after_forward`; matrices in a group of parameters of their own, as `adamw` of
            utils.experiments.training has them; for the loop, a vocabulary of at least 2d and 2f.
    Shapes, Unit, Source: as `llama_after_forward`.
    """
    w, count = settings.weight_bytes, llama_parameter_count(is_tied=settings.is_tied).text
    embeddings = "V*d" if settings.is_tied else "2*V*d"
    roots = {
        "AdamW, foreach": f"L*({BLOCK_WEIGHTS}) + {embeddings}",
        "AdamW, loop": "2*V*d" + ("" if settings.is_tied else " + d*f"),
    }.get(settings.optimizer)
    standing = _standing(replace(settings, holds_gradients=False))
    terms = [Term("gradients", count, w, _rows("gradients"), "one for each parameter"), *_outputs(settings)]
    if roots:
        terms.append(Term("square roots", roots, w, _rows("temporaries"), "of the averaged squares"))
    return Formula(f"{_title(settings)}: held in the optimizer's step", (*standing, *terms))


def _title(settings: LlamaSettings) -> str:
    checkpoint = ", checkpoint of every block" if settings.is_checkpointed else ""
    return f"Llama, {settings.precision}, {settings.attention}{checkpoint}"


def _standing(settings: LlamaSettings) -> list[Term]:
    """What is there in every phase."""
    count, each = llama_parameter_count(is_tied=settings.is_tied).text, settings.weight_bytes
    terms = [
        Term("parameters", count, each, _rows("parameters"), "the model"),
        Term("rotary tables", "2*s*d/a", 4, _rows("buffers"), "cosines and sines, in float32"),
    ]
    if settings.holds_gradients:
        terms.append(Term("gradients", count, each, _rows("gradients"), "of the step or the micro-batch before"))
    if n_states := STATES[settings.optimizer]:
        tensors = "9*L + 2" if settings.is_tied else "9*L + 3"
        steps = f" + {STEP_BYTES}*({tensors})" if settings.optimizer.endswith("fused") else ""
        size = f"{n_states * each}*({count}){steps}"
        terms.append(Term("optimizer state", size, 1, _rows("optimizer state"), "two averages of each gradient"))
    return [
        *terms,
        Term("inputs", "2*b*s", 8, _rows("inputs"), "tokens and targets, int64"),
        Term("cuBLAS workspaces", "2", settings.workspace_bytes, _rows("cuBLAS workspace"), "forward and backward"),
    ]


def _saved(settings: LlamaSettings, in_autocast: bool = False) -> list[Term]:
    """What autograd keeps for backward; in autocast's context the copies that it made for blocks stand as well."""
    e = settings.element_bytes
    norm = [Term(name, size, each, selectors, why) for name, size, each, selectors, why in norm_saved("norm", settings)]
    head = Term("head: input", "b*s*d", e, (Selector("head", "MmBackward*", "self"),), "weight gradient of the head")
    inside = "" if settings.is_checkpointed and not in_autocast else f"L*({BLOCK_WEIGHTS}) + "
    copies = _copies(settings, f"{inside}V*d") if settings.is_autocast else []
    return [*_tables_in_half(settings), *_blocks(settings), *norm, head, *copies, *_loss_saved()]


def _blocks(settings: LlamaSettings) -> list[Term]:
    if not settings.is_checkpointed:
        return llama_block_saved(settings)
    given = (Selector("blocks*", "checkpoint", "inputs?0?"),)
    return [Term("blocks: input", "L*b*s*d", settings.weight_bytes, given, "of each, to run it again")]


def _tables_in_half(settings: LlamaSettings) -> list[Term]:
    if settings.weight_bytes == 4:
        return []
    kept = Selector("blocks.*.attention", "MulBackward*", "other"), Selector("rotation", "activations")
    return [Term("rotary tables, in half precision", "2*s*d/a", 2, kept, "cosines and sines, the same for all blocks")]


def _copies(settings: LlamaSettings, size: str) -> list[Term]:
    return [Term("weight copies", size, 2, (Selector("*", "autocast copies", "*"),), "gradients of products' inputs")]


def _loss_saved() -> list[Term]:
    result, given = Selector("", "LogSoftmaxBackward*", "result"), Selector("", "NllLossBackward*", "self")
    weight = (Selector("", "NllLossBackward*", "total_weight"),)
    return [
        Term("loss: log-probabilities", "b*s*V", 4, (result, given), "derivative of log_softmax, from its output"),
        Term("loss: total weight", "1", 4, weight, "how many targets the mean is over"),
    ]


def _outputs(settings: LlamaSettings) -> list[Term]:
    size = f"{settings.element_bytes}*b*s*V + " if settings.holds_logits else ""
    return [
        Term("logits and loss" if size else "loss", f"{size}4", 1, _rows("outputs"), "the program has names for it")
    ]


def _rows(category: str) -> tuple[Selector, ...]:
    return (Selector("*", category, "*"),)

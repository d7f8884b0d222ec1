"""The closed form of a GPT's training step: every byte requested at the end of forward and where the peak falls."""

from dataclasses import replace

from every_byte.formula.formula import Formula, Selector, Term

from .estimates import parameter_count
from .mlp import is_on
from .moments import Beginning
from .regions import blocks_saved, weight_copies
from .settings import STATES, STEP_BYTES, GPTSettings


def held_after_forward(settings: GPTSettings) -> Formula:
    """Every byte that a GPU holds when the forward of a training step has ended.

    Shapes: tokens[b, s], targets[b, s] -> L blocks of width d with a heads -> logits[b, s, V], loss; a context of s
    Counts: each storage once, in training mode, with all parameters trained, after autocast's context was left. Not
            the allocator's rounding. With regions, the blocks hold what utils.formulas.regions says.
    Unit:   bytes, exact.
    Raises: ValueError as `block_saved` does.
    Source: held to the simulated ledger, row by row, by tests/formulas/test_gpt.py.
    """
    terms = (*_standing(settings), *_saved(settings), *_outputs(settings))
    return Formula(f"{_title(settings)}: held after forward", terms)


def held_in_loss(settings: GPTSettings) -> Formula:
    """What a GPU holds while backward goes through the loss: the step's peak for most models (see `peak`).

    It is the moment at which the gradient of the logits' log-probabilities is there and the loss has given back
    nothing yet. Under autocast nll_loss alone makes it so, in float32; else log_softmax, beside the gradient that
    nll_loss made.

    Shapes, Counts, Unit, Raises, Source: as `held_after_forward`. That this moment is the step's peak depends on the
            sizes: `Ledger.at_peak` shows where it is.
    """
    terms = (*_standing(settings), *_saved(settings, in_loss=True), *_outputs(settings), *_loss_gradients(settings))
    return Formula(f"{_title(settings)}: held in the loss's backward", terms)


def held_in_embedding(settings: GPTSettings) -> Formula:
    """What a GPU holds when backward ends, in the token embedding: the peak of a large model and few tokens.

    The embedding is the head too, so that its gradient comes twice, and both are there at once: the head's has waited
    since backward began. Under autocast the second is added into the first; else the sum is a third.

    Counts: as `held_after_forward`, for b s up to 3072 tokens: for more, the kernel sorts them, in buffers of its own.
    Shapes, Unit, Raises, Source: as `held_after_forward`.
    """
    each = settings.weight_bytes
    count, of_tokens = parameter_count(bias=settings.bias).text, "V*d"
    n_on_their_way = 2 + (not settings.is_autocast) - (not settings.holds_gradients)
    on_their_way = f"{n_on_their_way}*{of_tokens}" + (" + b*s*d" if settings.is_autocast else "")
    fresh = [] if settings.holds_gradients else [("gradients", count, "gradients", "the embedding's among them")]
    rows = [
        *fresh,
        ("gradients on their way", f"{on_their_way} + 1", "temporaries", "the embedding's that do not stay"),
    ]
    terms = [Term(name, size, each, _rows(category), why) for name, size, category, why in rows]
    return Formula(
        f"{_title(settings)}: held in the embedding's backward", (*_standing(settings), *_outputs(settings), *terms)
    )


def held_in_step(settings: GPTSettings) -> Formula:
    """What a GPU holds in the optimizer's step, all gradients among it, where its form takes most for itself.

    The foreach form of AdamW makes a square root for each matrix and embedding at once, the loop two for one parameter
    at a time, of which the token embedding is the largest; the fused form and SGD write in place.

    Counts: as `held_after_forward`; matrices and embeddings in a group of parameters of their own, as `adamw` of
            utils.experiments.training has them; for the loop, a vocabulary of at least 4d and of s.
    Shapes, Unit, Raises, Source: as `held_after_forward`.
    """
    each, count = settings.weight_bytes, parameter_count(bias=settings.bias).text
    gradients = Term("gradients", count, each, _rows("gradients"), "one for each parameter")
    roots = {"AdamW, foreach": "12*L*d**2 + d*(V + s)", "AdamW, loop": "2*V*d"}.get(settings.optimizer)
    terms = [
        *_standing(replace(settings, holds_gradients=False)),
        gradients,
        *_outputs(settings),
        *([Term("square roots", roots, each, _rows("temporaries"), "of the averaged squares")] if roots else []),
    ]
    return Formula(f"{_title(settings)}: held in the optimizer's step", tuple(terms))


MOMENTS = {
    "end of forward": held_after_forward,
    "backward of the loss": held_in_loss,
    "backward of the embedding": held_in_embedding,
}
"""The moments of a step that begin with one event of it, in their order: forward's end, and two in backward."""


def beginnings(settings: GPTSettings) -> dict[str, Beginning]:
    """For each of MOMENTS by which event of the step it begins: in backward, a gradient as large as the form says."""
    if settings.is_autocast:
        loss, embedding = "aten::nll_loss_backward", "aten::embedding_dense_backward"
    else:
        loss, embedding = "aten::_log_softmax_backward_data", "aten::add.Tensor"
    gradient = f"{settings.weight_bytes}*V*d"
    of_each = (
        Beginning("forward"),
        Beginning("forward", (loss,)),
        Beginning("forward", (embedding,), module="tokens", n_bytes=gradient),
    )
    return dict(zip(MOMENTS, of_each, strict=True))


def peak(settings: GPTSettings, **letters: int) -> tuple[str, int]:
    """The largest of MOMENTS and of the optimizer's step, its name and its bytes.

    It is the step's peak while the largest layers are the vocabulary's, as in the published GPT-2s: what a block's
    backward takes for itself has no moment here. Else it is a lower bound. `Ledger.at_peak` shows the peak itself.

    Unit:   bytes, requested.
    Raises: ValueError, as `Formula.bytes`.
    """
    moments = MOMENTS | {"optimizer's step": held_in_step}
    found = {name: held(settings).bytes(**letters) for name, held in moments.items()}
    return max(found.items(), key=lambda item: item[1])


def _title(settings: GPTSettings) -> str:
    extras = (", bias" if settings.bias else "") + (", dropout" if settings.dropout else "")
    if settings.regions != "none":
        extras += f", checkpoint of {settings.regions}" + (f", {settings.policy}" if settings.policy != "none" else "")
    return f"GPT, {settings.precision}, {settings.attention}{extras}"


def _standing(settings: GPTSettings) -> list[Term]:
    """What is there in every phase."""
    count, each = parameter_count(bias=settings.bias).text, settings.weight_bytes
    terms = [Term("parameters", count, each, _rows("parameters"), "the model")]
    if settings.attention == "explicit":
        terms.append(Term("buffers", "L*s**2", each, _rows("buffers"), "a causal mask in each block"))
    if settings.holds_gradients:
        terms.append(Term("gradients", count, each, _rows("gradients"), "of the step or the micro-batch before"))
    if n_states := STATES[settings.optimizer]:
        fused = settings.optimizer.endswith("fused")
        tensors = "12*L + 4" if settings.bias else "6*L + 3"
        size = f"{n_states * each}*({count})" + (f" + {STEP_BYTES}*({tensors})" if fused else "")
        terms.append(Term("optimizer state", size, 1, _rows("optimizer state"), "two averages of each gradient"))
    return [
        *terms,
        Term("inputs", "2*b*s", 8, _rows("inputs"), "tokens and targets, int64"),
        Term("cuBLAS workspaces", "2", settings.workspace_bytes, _rows("cuBLAS workspace"), "forward and backward"),
    ]


def _saved(settings: GPTSettings, in_loss: bool = False) -> list[Term]:
    """What autograd keeps for backward."""
    e = settings.element_bytes
    stream = settings.weight_bytes
    norm = "NativeLayerNormBackward*"
    statistics = Selector("norm", norm, "result1"), Selector("norm", norm, "result2")
    terms = [Term("positions", "s", 8, (Selector("positions", "EmbeddingBackward*", "indices"),), "int64")]
    if is_on(settings.dropout):
        mask = Selector("dropout", "NativeDropoutBackward*", "result1")
        terms.append(Term("embedding: dropout mask", "b*s*d", 1, (mask,), "which elements dropout let pass"))
    terms += blocks_saved(settings)
    terms += [
        Term("norm: input", "b*s*d", stream, (Selector("norm", norm, "input"),), "gradients of the last norm"),
        Term("norm: statistics", "2*b*s", 4, statistics, "mean and 1/deviation of each position"),
        Term("head: input", "b*s*d", e, (Selector("head", "MmBackward*", "self"),), "weight gradient of the head"),
    ]
    if settings.is_autocast:
        terms.append(weight_copies(settings))
    return terms + _loss_saved(settings, in_loss)


def _loss_saved(settings: GPTSettings, in_loss: bool) -> list[Term]:
    """Of the two parts of cross entropy: under autocast nll_loss runs in float32, and has a copy of its own."""
    result, given = Selector("", "LogSoftmaxBackward*", "result"), Selector("", "NllLossBackward*", "self")
    e, exact = settings.element_bytes, settings.weight_bytes
    weight = Selector("", "NllLossBackward*", "total_weight")
    total = Term("loss: total weight", "1", exact, (weight,), "how many targets the mean is over")
    if settings.is_autocast:
        return [
            Term("loss: log-probabilities", "b*s*V", e, (result,), "derivative of log_softmax, from its output"),
            Term("loss: log-probabilities in float32", "b*s*V", 4, (given,), "nll_loss saves its input"),
            total,
        ]
    kept = Term("loss: log-probabilities", "b*s*V", e, (result, given), "derivative of log_softmax, from its output")
    return [kept] if in_loss else [kept, total]  # nll_loss has been through by then


def _outputs(settings: GPTSettings) -> list[Term]:
    size = f"{settings.element_bytes}*b*s*V + " if settings.holds_logits else ""
    what = "logits and loss" if settings.holds_logits else "loss"
    return [Term(what, f"{size}{settings.weight_bytes}", 1, _rows("outputs"), "the program has names for them")]


def _loss_gradients(settings: GPTSettings) -> list[Term]:
    """Gradients on their way, beside the 1 that backward begins with."""
    sizes = [4] if settings.is_autocast else [settings.element_bytes] * 2
    n_starts = 2 if settings.divides_loss and settings.is_autocast else 1  # nll_loss is through, else, with what it got
    size = f"{sum(sizes)}*b*s*V + {n_starts * settings.weight_bytes}"
    why = "of the loss, and of the log-probabilities" + ("" if settings.is_autocast else " and of the logits")
    return [Term("gradients on their way", size, 1, _rows("temporaries"), why)]


def _rows(category: str) -> tuple[Selector, ...]:
    return (Selector("*", category, "*"),)

"""The closed form of a transformer block: every tensor that it keeps for backward, sub-layer by sub-layer."""

from dataclasses import replace

from every_byte.formula.formula import Formula, Selector, Term

from .mlp import is_on, mlp_saved

ATTENTIONS = ("flash", "efficient", "cudnn", "explicit")
PARTS = ("norm1", "attention", "norm2", "mlp")

_KERNELS = {  # the node of each kernel, its logsumexp, and what it keeps for dropout's random numbers
    "flash": ("ScaledDotProductFlashAttention*", "logsumexp", "a*b*s", (("rng_state", 16), ("unused", 8))),
    "efficient": (
        "ScaledDotProductEfficientAttention*",
        "log_sumexp",
        "a*b*up(s, 32)",
        (("philox_seed", 8), ("philox_offset", 8)),
    ),
    "cudnn": (
        "ScaledDotProductCudnnAttention*",
        "logsumexp",
        "a*b*s",
        (("philox_seed", 8), ("philox_offset", 8)),
    ),
}

GIVEN_TO_CORE = Selector("attention", "checkpoint", "inputs*")  # as the ledger names what a checkpoint was given


def block_parts(
    *,
    attention: str,
    activation: str,
    dropout: float | bool | None = False,
    from_output: bool = False,
    autocast: bool = False,
    core: bool = True,
) -> dict[str, Formula]:
    """What a pre-norm `Block` keeps for backward, as a Formula for each of its four sub-layers.

    `attention` is the kernel that the GPU takes for `kind="sdpa"` ("flash", "efficient" or "cudnn"), or "explicit";
    `activation`, `dropout` and `from_output` are those of `mlp_saved`. With `autocast` the weights and x are float32,
    and e is 2, the bytes of autocast's type. Without `core`, a checkpoint runs attention's core, from q, k and v to y
    ("attention only" of utils.models.regions), which keeps q, k and v alone.

    Shapes: x[b,s,d] -> norm1 -> attention of a heads -> + x -> norm2 -> mlp -> + -> y[b,s,d], elements of e bytes
    Counts: each storage once, all parameters trained, in training mode, with or without biases; flash, efficient and
            cuDNN's attention for heads of a multiple of 8 numbers (others are padded). Not the parameters, nor
            autocast's copies of them, not y. Of the efficient kernel, seed and offset lie in CPU memory: 16 bytes that
            the GPU lacks.
    Unit:   bytes, exact; no allocator rounding.
    Raises: ValueError for an attention that is none of ATTENTIONS, and as `mlp_saved` does.
    Source: Korthikanti et al. 2022, section 4.1; held to autograd by tests/formulas/test_block.py.
    """
    if attention not in ATTENTIONS:
        raise ValueError(f"attention must be one of {', '.join(ATTENTIONS)}: got attention={attention!r}.")
    mlp = mlp_saved(activation=activation, dropout=dropout, from_output=from_output, autocast=autocast)
    terms = {
        "norm1": _norm("norm1", 4 if autocast else "e"),
        "attention": _attention(attention, is_on(dropout), autocast, core),
        "norm2": _norm("norm2", 4 if autocast else "e"),
        "mlp": [replace(term, selectors=tuple(map(_inside_mlp, term.selectors))) for term in mlp.terms],
    }
    return {part: Formula(f"{part}: kept for backward", tuple(terms[part])) for part in PARTS}


def block_saved(
    *,
    attention: str,
    activation: str,
    dropout: float | bool | None = False,
    from_output: bool = False,
    autocast: bool = False,
    core: bool = True,
) -> Formula:
    """The same as one Formula, whose terms have the sub-layer before their name: "norm1: input".

    Shapes, Counts, Unit, Raises: as `block_parts`.
    """
    parts = block_parts(
        attention=attention,
        activation=activation,
        dropout=dropout,
        from_output=from_output,
        autocast=autocast,
        core=core,
    ).items()
    terms = [replace(term, name=f"{part}: {term.name}") for part, formula in parts for term in formula.terms]
    extras = {
        " from its output": from_output,
        ", dropout": dropout,
        ", autocast": autocast,
        ", core checkpointed": not core,
    }
    named = f"{attention}, {activation}" + "".join(name for name, is_so in extras.items() if is_so)
    return Formula(f"Block with {named}: kept for backward", tuple(terms))


def _norm(module: str, element_bytes: int | str) -> list[Term]:
    node = "NativeLayerNormBackward*"
    statistics = Selector(module, node, "result1"), Selector(module, node, "result2")
    return [
        Term("input", "b*s*d", element_bytes, (Selector(module, node, "input"),), "all three gradients of the norm"),
        Term("statistics", "2*b*s", 4, statistics, "mean and 1/deviation of each position, in float32"),
    ]


def _linear_input(module: str) -> tuple[Selector, ...]:
    return Selector(module, "AddmmBackward*", "mat1"), Selector(module, "MmBackward*", "self")


def _attention(attention: str, has_dropout: bool, autocast: bool, core: bool) -> list[Term]:
    is_explicit = attention == "explicit"
    terms = [Term("input", "b*s*d", "e", _linear_input("attention.qkv"), "weight gradient of qkv")]
    if not core:
        terms.append(Term("q, k, v", "3*b*s*d", "e", (GIVEN_TO_CORE,), "to run the core again"))
    else:
        terms += _explicit(has_dropout, autocast) if is_explicit else _kernel(attention)
    is_read = core and not is_explicit
    why = "weight gradient of out" + ("; gradient of the softmax" if is_read else "")
    output = _linear_input("attention.out") + (
        (Selector("attention", _KERNELS[attention][0], "output"),) if is_read else ()
    )
    terms.append(Term("output", "b*s*d", "e", output, why))
    if has_dropout:
        masks = [Selector("attention.dropout", "NativeDropoutBackward*", "result1")]
        size = "b*s*d"
        if is_explicit and core:
            masks.append(Selector("attention.weight_dropout", "NativeDropoutBackward*", "result1"))
            size = "b*s*d + a*b*s**2"
        terms.append(Term("dropout mask", size, 1, tuple(masks), "which elements dropout let pass, a bool each"))
    return terms


def _kernel(attention: str) -> list[Term]:
    node, logsumexp, rows, random = _KERNELS[attention]
    qkv = tuple(Selector("attention", node, slot) for slot in ("query", "key", "value"))
    seeds = tuple(Selector("attention", node, slot) for slot, _ in random)
    n_bytes = sum(n for _, n in random)
    return [
        Term("q, k, v", "3*b*s*d", "e", qkv, "gradients of q, k and v: one storage, the output of qkv"),
        Term("logsumexp", rows, 4, (Selector("attention", node, logsumexp),), "to compute the softmax again"),
        Term("random state", str(n_bytes), 1, seeds, "to draw dropout's numbers again"),
    ]


def _explicit(has_dropout: bool, autocast: bool) -> list[Term]:
    """The two products are nodes of one name: the first makes the scores, the second applies them to v.

    Under autocast the softmax runs in float32, and the second product has a copy of its result in half precision.
    """
    softmax_bytes, has_copy = (4, True) if autocast else ("e", has_dropout)
    bmm, softmax = "BmmBackward*", "SoftmaxBackward*"
    scores, applied = Selector("attention", bmm, "self", 1), Selector("attention", bmm, "self", 2)
    qkv = scores, Selector("attention", bmm, "mat2", 1), Selector("attention", bmm, "mat2", 2)
    result = Selector("attention", softmax, "result")
    weights = (result,) if has_copy else (result, applied)
    terms = [
        Term("q, k, v", "3*b*s*d", "e", qkv, "gradients of each other, and of the weights"),
        Term("causal mask", "s**2", 1, (Selector("attention", "MaskedFillBackward*", "mask"),), "a bool each"),
        Term("weights", "a*b*s**2", softmax_bytes, weights, "derivative of the softmax, from its output"),
    ]
    if has_copy:
        name = "dropped weights" if has_dropout else "weights, in half precision"
        terms.append(Term(name, "a*b*s**2", "e", (applied,), "gradient of v"))
    return terms


def _inside_mlp(selector: Selector) -> Selector:
    return replace(selector, module=f"mlp.{selector.module}")

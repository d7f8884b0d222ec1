"""What an MLP keeps for backward, in closed form, for each activation of torch.nn, with dropout or without."""

from every_byte.formula.formula import Formula, Selector, Term

# Which tensors the backward of an activation reads, by its class in torch.nn; a final _ marks the in-place form.
_READS_INPUT = set(
    "CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish PReLU ReLU6 RReLU SELU SiLU "
    "Softplus Softshrink Softsign Threshold".split()
)
_READS_COPY = set("Hardsigmoid_ Hardswish_ Hardtanh_ Mish_ ReLU6_ SiLU_ Threshold_".split())  # the input is overwritten
_READS_RESULT = set(
    "CELU_ ELU_ LeakyReLU_ LogSoftmax ReLU ReLU_ RReLU_ SELU_ Sigmoid Softmax Softmax2d Softmin Tanh".split()
)
_READS_MORE = {
    "RReLU": ("noise", "noise", "the random slopes, in training mode"),
    "RReLU_": ("noise", "noise", "the random slopes, in training mode"),
    "Softsign": ("denominator", "other", "the 1 + |h| that it divides by"),
    "Tanhshrink": ("tanh output", "result", "the tanh that it subtracts"),
}
_OTHERWISE_UNDER_AUTOCAST = set("LogSoftmax PReLU Softmax Softmax2d Softmin Softplus".split())
_FROM_OUTPUT = set(
    "CELU ELU Hardshrink Hardsigmoid Hardtanh LeakyReLU LogSigmoid ReLU6 SELU Sigmoid Softplus Softshrink Softsign "
    "Tanh Threshold".split()
)
"""Activations of which utils.models.activations has a version that keeps its output."""
ACTIVATIONS = tuple(sorted(_READS_INPUT | _READS_COPY | _READS_RESULT | {"Identity", "Tanhshrink"}, key=str.lower))


def mlp_saved(
    *,
    activation: str,
    dropout: float | bool | None = False,
    bias: bool = True,
    from_output: bool = False,
    autocast: bool = False,
) -> Formula:
    """Tensors that `Linear -> activation -> Linear -> dropout` keeps for backward on a CUDA GPU, term by term.

    `activation` names a class of torch.nn; case and underscores are ignored, but a trailing underscore selects the
    in-place form: "gelu", "LeakyReLU", "leaky_relu_". `dropout` is its probability, or whether there is any. `bias`
    says whether the Linears have one; it changes which node keeps an input, not what is kept. With `from_output` the
    activation is the version in utils.models.activations that keeps its output. With `autocast` the weights and x are
    float32, and e is 2: both Linears keep inputs in autocast's type, the first one a copy of x.

    Shapes: x[b,s,d] -> h[b,s,4d] -> g[b,s,4d] -> y[b,s,d], elements of e bytes
    Counts: each storage once, with all parameters trained, in training mode, whether or not x requires grad. Not the
            parameters, autocast's copies of them, or y.
    Unit:   bytes, exact; no allocator rounding.
    Raises: ValueError for an activation whose backward is not known or that autocast would run in float32, and for a
            dropout outside [0, 1).
    Source: Korthikanti et al. 2022, section 4.1; checked against autograd by tests/formulas/test_mlp.py.
    """
    name = _activation(activation)
    if from_output and name not in _FROM_OUTPUT:
        raise ValueError(
            f"from_output needs an activation of utils.models.activations: got {activation!r}; one of "
            f"{', '.join(sorted(_FROM_OUTPUT))}."
        )
    if autocast and (from_output or name.removesuffix("_") in _OTHERWISE_UNDER_AUTOCAST):
        raise ValueError(
            "autocast=True needs an activation that runs in its input's type: "
            f"got {activation!r}; try 'gelu' or 'relu'."
        )
    has_dropout = is_on(dropout)
    reads_result = from_output or name in _READS_RESULT
    linear = [("AddmmBackward*", "mat1")] if bias else []
    linear.append(("MmBackward*", "self"))  # with a bias too, if the input is not contiguous
    result = [("activation", "*", "result"), ("activation", "KeepOutput*", "tensors*")] if reads_result else []
    why = "weight gradient of down"
    if reads_result:
        why += f"; derivative of {name.removesuffix('_')}, from its output"
    terms = [
        _term("input", "b*s*d", [("up", *slot) for slot in linear], "weight gradient of up"),
        *([] if from_output else _activation_terms(name)),
        _term("down input", "4*b*s*d", [("down", *slot) for slot in linear] + result, why),
    ]
    if has_dropout:
        mask = Selector("dropout", "NativeDropoutBackward*", "result1")
        terms.append(Term("dropout mask", "b*s*d", 1, (mask,), "which elements dropout let through, a bool each"))
    how = ", from its output" if from_output else " in place" if name.endswith("_") else ""
    shown = name.removesuffix("_") + how
    extras = (", dropout" if has_dropout else "") + ("" if bias else ", no bias")
    return Formula(f"MLP with {shown}{extras}: kept for backward", tuple(terms))


def mlp_saved_dropout_inside(*, activation: str) -> Formula:
    """The same with dropout between the activation and `down`, as in the first transformers and those of torch.nn.

    `down` keeps dropout's output, so an activation that reads its own result keeps one more tensor.

    Shapes: x[b,s,d] -> h[b,s,4d] -> g[b,s,4d] -> dropped[b,s,4d] -> y[b,s,d], elements of e bytes
    Counts: as `mlp_saved`.
    Unit:   bytes, exact; no allocator rounding.
    Raises: ValueError for an activation whose backward is not known, and for an in-place form.
    """
    name = _activation(activation)
    if name.endswith("_"):
        raise ValueError(f"activation must not be in place: got {activation!r}; try {activation.rstrip('_')!r}.")
    *before, down_input = mlp_saved(activation="Identity" if name in _READS_RESULT else activation).terms
    if name in _READS_RESULT:
        why = f"derivative of {name}, from its output"
        before += [_term("activation output", "4*b*s*d", [("activation", "*", "result")], why)]
    mask = Selector("dropout", "NativeDropoutBackward*", "result1")
    terms = (*before, down_input, Term("dropout mask", "4*b*s*d", 1, (mask,), "which elements dropout let through"))
    return Formula(f"MLP with {name}, dropout inside: kept for backward", terms)


def _activation_terms(name: str) -> list[Term]:
    in_place = [("activation", "CopySlices", "")] if name.endswith("_") else []
    terms = []
    if name in _READS_INPUT | _READS_COPY:
        why = f"derivative of {name.removesuffix('_')}, from its input" + (": a copy, made before" if in_place else "")
        terms.append(_term("activation input", "4*b*s*d", [("activation", "*", "self"), *in_place], why))
    if name in _READS_MORE:
        term, slot, what = _READS_MORE[name]
        why = f"derivative of {name.removesuffix('_')}: {what}"
        terms.append(_term(term, "4*b*s*d", [("activation", "*", slot), *in_place], why))
    return terms


def _term(name: str, elements: str, slots: list[tuple[str, str, str]], why: str) -> Term:
    return Term(name, elements, "e", tuple(Selector(*slot) for slot in slots), why)


def _activation(name: str) -> str:
    plain = {known.lower(): known for known in ACTIVATIONS}
    key = str(name).replace("_", "").lower() + ("_" if str(name).endswith("_") else "")
    if key not in plain:
        raise ValueError(
            f"activation must be one whose backward is known: got {name!r}; one of {', '.join(ACTIVATIONS)} "
            "(_ marks in place)."
        )
    return plain[key]


def is_on(dropout: float | bool | None) -> bool:
    """Whether there is dropout. Raises: ValueError for a probability outside [0, 1)."""
    if not isinstance(dropout, bool) and dropout is not None and not 0 <= dropout < 1:
        raise ValueError(f"dropout must lie in [0, 1), or be True or False: got dropout={dropout!r}.")
    return bool(dropout)

"""What one rank of t keeps for backward in tensor parallel, in closed form, and how it differs from the paper's."""

from dataclasses import replace

from every_byte.formula.formula import Formula, Selector, Term

from .block import block_saved
from .mlp import is_on

_OF_POSITIONS = ("norm1: input", "norm1: statistics", "norm2: input", "norm2: statistics", "mlp: dropout mask")
_OF_ALL = ("attention: input", "mlp: input", "attention: causal mask", "attention: random state")
_GATHERED = ("attention: input", "mlp: input")
_MASKS = "attention: dropout mask"
_SCORES = "a*b*s**2"


def rank_saved(
    *,
    attention: str,
    activation: str,
    dropout: float | bool | None = False,
    autocast: bool = False,
    core: bool = True,
    sequence: bool = False,
    gathers_again: bool = False,
) -> Formula:
    """Tensors that a `Block` which `tensor_parallel` has split keeps for backward on each rank, term by term.

    The terms are those of `block_saved`, and so are all settings but `sequence`, that of `tensor_parallel`. A rank has
    1/t of what belongs to heads and to the MLP's hidden numbers. The rest is whole on each, but that with `sequence`
    norms and the last dropouts are those of 1/t of the positions; the inputs of qkv and of up are gathered before their
    products and kept as gathered, or with `gathers_again` as a rank's share, as Megatron's are: see `gather_again` of
    utils.experiments.rank_steps. Without `core`, attention's core is checkpointed: selective recomputation.

    Shapes: x[b,s,d] -> h[b,s,4d/t], q, k, v[b,a/t,s,d/a] -> y[b,s,d], elements of e bytes; with `sequence` x[b,s/t,d]
    Counts: as `block_saved`. t divides a, and with `sequence` s.
    Unit:   bytes, exact; no allocator rounding.
    Raises: ValueError as `block_saved`, and for gathers_again without sequence, where nothing is gathered.
    Source: Korthikanti et al. 2022, section 4.2; held to the simulated ranks by tests/formulas/test_tensor_parallel.py.
    """
    if gathers_again and not sequence:
        raise ValueError("gathers_again=True needs sequence=True: otherwise nothing is gathered.")
    whole = block_saved(attention=attention, activation=activation, dropout=dropout, autocast=autocast, core=core)
    of_positions = _OF_POSITIONS + (_GATHERED if gathers_again else ())
    extras = ", sequence parallel" if sequence else ""
    title = whole.title.replace(": kept", f"{extras}, a rank of t: kept")
    terms = (replace(term, elements=_share(term, sequence, of_positions)) for term in whole.terms)
    return Formula(title, tuple(map(_given_to_checkpoint, terms) if gathers_again else terms))


def _given_to_checkpoint(term: Term) -> Term:
    """Of what is gathered again the share lies where a checkpoint was given it."""
    module = {"attention: input": "attention.qkv.layer", "mlp: input": "mlp.up.layer"}.get(term.name)
    if module is None:
        return term
    return replace(term, selectors=(Selector(module, "checkpoint", "inputs*"),))


def _share(term: Term, sequence: bool, of_positions: tuple[str, ...]) -> str:
    """A rank's part of a term of `block_saved`."""
    positions = "/t" if sequence else ""
    if term.name == _MASKS:
        of_heads = f" + {_SCORES}/t" if _SCORES in term.elements else ""
        return f"b*s*d{positions}{of_heads}"
    if term.name in of_positions:
        return f"{term.elements}{positions}"
    return term.elements if term.name in _OF_ALL else f"{term.elements}/t"


def rank_gpt_saved(
    *,
    attention: str,
    activation: str = "gelu",
    dropout: float | bool | None = False,
    autocast: bool = False,
    core: bool = True,
    sequence: bool = False,
    gathers_again: bool = False,
) -> Formula:
    """The same for a `GPT` with targets, its L blocks and what lies before and behind them.

    Each rank looks up the tokens of its part of the vocabulary, and has the logits of that part.

    Shapes: tokens[b, s], targets[b, s] -> L blocks -> logits[b, s, V/t], loss; elements of e bytes
    Counts: as `rank_saved`, and not tokens and targets, logits, loss. t divides V too.
    Unit, Raises, Source: as `rank_saved`.
    """
    block = rank_saved(
        attention=attention,
        activation=activation,
        dropout=dropout,
        autocast=autocast,
        core=core,
        sequence=sequence,
        gathers_again=gathers_again,
    )
    before, behind = _embeddings(is_on(dropout), sequence), [*_ending(autocast, sequence), *_loss(autocast)]
    terms = [*before, *map(_in_all_blocks, block.terms), *behind]
    return Formula(block.title.replace("Block", "GPT"), tuple(terms))


def _in_all_blocks(term: Term) -> Term:
    selectors = tuple(replace(selector, module=f"blocks.*.{selector.module}") for selector in term.selectors)
    return replace(term, elements=f"L*({term.elements})", selectors=selectors)


def _embeddings(has_dropout: bool, sequence: bool) -> list[Term]:
    positions = "/t" if sequence else ""
    numbers = Selector("positions", "EmbeddingBackward*", "indices")
    mask = Selector("dropout", "NativeDropoutBackward*", "result1")
    terms = [Term("positions", f"s{positions}", 8, (numbers,), "int64")]
    if has_dropout:
        why = "which elements dropout let pass"
        terms.append(Term("embedding: dropout mask", f"b*s*d{positions}", 1, (mask,), why))
    return terms


def _ending(autocast: bool, sequence: bool) -> list[Term]:
    """The last norm and the head."""
    positions, norm = "/t" if sequence else "", "NativeLayerNormBackward*"
    each, given = 4 if autocast else "e", Selector("norm", norm, "input")
    statistics = Selector("norm", norm, "result1"), Selector("norm", norm, "result2")
    read = Selector("head", "MmBackward*", "self")
    return [
        Term("norm: input", f"b*s*d{positions}", each, (given,), "gradients of the last norm"),
        Term("norm: statistics", f"2*b*s{positions}", 4, statistics, "mean and 1/deviation of each position"),
        Term("head: input", "b*s*d", "e", (read,), "weight gradient of the head"),
    ]


def _loss(autocast: bool) -> list[Term]:
    """The loss, which all ranks make together; under autocast its second part runs in float32, on a copy."""
    result, given = Selector("", "LogSoftmaxBackward*", "result"), Selector("", "NllLossBackward*", "self")
    total = Selector("", "NllLossBackward*", "total_weight")
    why = "derivative of log_softmax, from its output"
    name = "loss: log-probabilities"
    terms = [Term(name, "b*s*V/t", "e", (result,) if autocast else (result, given), why)]
    if autocast:
        terms.append(Term(f"{name} in float32", "b*s*V/t", 4, (given,), "nll_loss saves its input"))
    return [
        *terms,
        Term("loss: total weight", "1", 4 if autocast else "e", (total,), "how many targets the mean is over"),
    ]


def not_in_paper(*, attention: str = "explicit", selective: bool = False, sequence: bool = False) -> Formula:
    """What a rank keeps of L blocks beyond `half_precision_activations`, which leaves it out, term by term.

    The paper's estimate with the same `selective` and `sequence`, and these terms, are L times `rank_saved` with GELU
    and dropout at 2 bytes an element; of a kernel that computes the softmax again itself, the estimate is the one with
    `selective`, which drops the same tensors.

    Counts: `selective` is the `core` of `rank_saved` that is missing. Megatron's sequence parallel keeps a rank's
            positions of what enters qkv and up, and gathers them again in backward; DTensor keeps what it gathered.
    Unit:   bytes, exact.
    Source: Korthikanti et al. 2022, sections 4.2.1 and 4.2.2; held to `rank_saved` by
            tests/formulas/test_tensor_parallel.py.
    """
    names = {"norm1: statistics", "norm2: statistics", "attention: causal mask"}
    names |= {"attention: logsumexp", "attention: random state"}
    complete = rank_saved(attention=attention, activation="gelu", dropout=True, core=not selective, sequence=sequence)
    terms = [_in_all_blocks(term) for term in complete.terms if term.name in names]
    if sequence:
        why = "what enters qkv and up, beyond a rank's own positions"
        terms.append(Term("gathered inputs", "2*L*(b*s*d - b*s*d/t)", 2, (), why))
    return Formula(
        complete.title.replace("Block", "Blocks").replace(": kept", ": kept, not in the paper"), tuple(terms)
    )

"""How many parameters a GPT has, exactly, and the published estimates of what training it takes."""

from every_byte.formula.expressions import Expression
from every_byte.formula.formula import Formula, Term

_COUNT = "L*(12*d**2 + 2*d) + d*(V + s) + d"
_BIASES = "L*11*d + d"
_BLOCK = "L*b*s*d"  # a tensor of a block's width, in all blocks
_SCORES = "L*a*b*s**2"  # a number for each pair of positions, in all heads of all blocks


def parameter_count(*, bias: bool = False) -> Expression:
    """The number of a GPT's parameters; `bias` is that of its Linears and norms.

    Shapes: tokens[V, d], positions[s, d]; in each of L blocks 12 d^2 weights and two norms of d; a last norm of d
    Counts: the head once, with the token embedding that it is tied to; s is the context length. Not the buffers.
    Source: held to `GPT` by tests/formulas/test_estimates.py.
    """
    return Expression(f"{_COUNT} + {_BIASES}" if bias else _COUNT)


def gpt_weights(*, bias: bool = False) -> Formula:
    """The same, part by part, with the bytes: parameters of e bytes each. With e=1 it counts them.

    Counts: as `parameter_count`.
    Unit:   bytes.
    """
    sizes = [
        ("token embedding", "V*d", "the head too: one tensor"),
        ("position embedding", "s*d", ""),
        ("qkv", "L*3*d**2", "in each block"),
        ("out", "L*d**2", "in each block"),
        ("up", "L*4*d**2", "in each block"),
        ("down", "L*4*d**2", "in each block"),
        ("norms", "2*L*d + d", "two in each block, and the last"),
        *([("biases", _BIASES, "3d, d, 4d, d and two norms' 2d in each block, and the last norm's")] if bias else []),
    ]
    title = f"GPT{' with biases' if bias else ''}: parameters"
    return Formula(title, tuple(Term(name, elements, "e", (), what) for name, elements, what in sizes))


def steady_state() -> Formula:
    """What a GPT with explicit attention holds between two steps, if gradients stay: 16N + 4N_buf and the data.

    Weights, gradients and both moments of Adam are in float32, for N parameters without biases; N_buf are the causal
    masks' elements, one mask of the context length s in each block.

    Counts: the two batches of integers too. Not cuBLAS's workspaces, the loss, the steps that Adam counts; no gaps
            between blocks.
    Unit:   bytes, requested.
    Source: "Transformer Memory Arithmetic: Understanding all the Bytes in nanoGPT".
    """
    data = Term("data", "2*b*s", 8, (), "tokens and targets, int64")
    return Formula("GPT between steps: 16N + 4N_buf + data", (*_kept_for_good(), data))


def _kept_for_good() -> list[Term]:
    return [
        Term("weights", _COUNT, 4, (), "N parameters in float32"),
        Term("buffers", "L*s**2", 4, (), "N_buf: the causal mask of each block, in float32"),
        Term("gradients", _COUNT, 4, (), "where they are kept: see zero_grad"),
        Term("optimizer state", f"2*({_COUNT})", 4, (), "two moments of each parameter, in float32"),
    ]


def autocast_activations() -> Formula:
    """The estimate of what forward keeps for backward under autocast with explicit attention and no dropout.

    With N_e = b s d, N_a = a b s^2 and N_l = b s V: in each block 14N_e + 6N_a (attention) and 22N_e (feed-forward),
    then 6N_e, and 6N_l for the cross entropy. Linears work in half precision, norms, softmax and loss in float32.

    Counts: the large tensors alone. Not autocast's copies of the weights, the boolean masks that `masked_fill` keeps,
            the norms' statistics, the positions.
    Unit:   bytes, requested: an estimate.
    Source: "Transformer Memory Arithmetic: Understanding all the Bytes in nanoGPT"; what it leaves out is counted in
            tests/formulas/test_estimates.py.
    """
    terms = [
        Term("attention: norm1 input", _BLOCK, 4, (), "gradients of norm1, in float32"),
        Term("attention: qkv input", _BLOCK, 2, (), "weight gradient of qkv"),
        Term("attention: q, k, v", f"3*{_BLOCK}", 2, (), "gradients of each other, and of the weights"),
        Term("attention: softmax", _SCORES, 4, (), "derivative of the softmax, from its output, in float32"),
        Term("attention: weights", _SCORES, 2, (), "gradient of v: a copy in half precision"),
        Term("attention: out input", _BLOCK, 2, (), "weight gradient of out"),
        Term("feed-forward: norm2 input", _BLOCK, 4, (), "gradients of norm2, in float32"),
        Term("feed-forward: up input", _BLOCK, 2, (), "weight gradient of up"),
        Term("feed-forward: activation input", f"4*{_BLOCK}", 2, (), "derivative of GELU, from its input"),
        Term("feed-forward: down input", f"4*{_BLOCK}", 2, (), "weight gradient of down"),
        Term("other: norm input", "b*s*d", 4, (), "gradients of the last norm, in float32"),
        Term("other: head input", "b*s*d", 2, (), "weight gradient of the head"),
        Term("cross entropy: log-softmax", "b*s*V", 2, (), "derivative of the log-softmax, from its output"),
        Term("cross entropy: float32 copy", "b*s*V", 4, (), "what the loss picks from"),
    ]
    return Formula("GPT under autocast, estimated: kept for backward", tuple(terms))


def half_precision_activations(*, sequence: bool = False, selective: bool = False) -> Formula:
    """The estimate b s d L (10 + 24/t + 5 a s/(d t)): every activation at 2 bytes, on each of t GPUs in parallel.

    On one GPU, t = 1, this is b s d L (34 + 5 a s/d). Dropout is on: its masks are the terms of 1 byte. With `sequence`
    parallel all is divided by t; with `selective` recomputation the terms of a s^2 are not kept, which leaves
    34 b s d L/t with both.

    Counts: the L blocks alone, without the statistics of their norms. Not the embeddings, the last norm, the head, the
            cross entropy. What PyTorch keeps beyond it: `not_in_paper` of utils.formulas.tensor_parallel.
    Unit:   bytes, requested: an estimate.
    Source: Korthikanti et al. 2022, sections 4.1, 4.2 and 5; Anthony, Biderman and Schoelkopf 2023, "Transformer Math
            101".
    """
    positions = f"{_BLOCK}/t" if sequence else _BLOCK
    terms = [
        Term("norm inputs", f"2*{positions}", 2, (), "gradients of norm1 and norm2"),
        Term("qkv input", positions, 2, (), "weight gradient of qkv"),
        Term("q, k, v", f"3*{_BLOCK}/t", 2, (), "gradients of each other, and of the weights"),
        Term("softmax", f"{_SCORES}/t", 2, (), "derivative of the softmax, from its output"),
        Term("weights' dropout mask", f"{_SCORES}/t", 1, (), "which weights dropout let pass"),
        Term("dropped weights", f"{_SCORES}/t", 2, (), "gradient of v"),
        Term("out input", f"{_BLOCK}/t", 2, (), "weight gradient of out"),
        Term("up input", positions, 2, (), "weight gradient of up"),
        Term("activation input", f"4*{_BLOCK}/t", 2, (), "derivative of GELU, from its input"),
        Term("down input", f"4*{_BLOCK}/t", 2, (), "weight gradient of down"),
        Term("dropout masks", f"2*{positions}", 1, (), "which elements dropout let pass, after out and down"),
    ]
    if selective:
        terms = [term for term in terms if not term.elements.startswith(_SCORES)]
    extras = (", sequence parallel" if sequence else "") + (", selective recomputation" if selective else "")
    return Formula(f"Blocks in half precision{extras}, estimated: kept for backward", tuple(terms))


def peak_estimate() -> Formula:
    """The estimate of a step's peak: 16N + 4N_buf, the activations under autocast, and 4N_l.

    It falls just after backward starts: all activations are there still, and the first gradient, that of the float32
    copy in the cross entropy, already is.

    Counts: as printed, without the data of `steady_state` and cuBLAS's workspaces.
    Unit:   bytes, requested: an estimate.
    Source: "Transformer Memory Arithmetic: Understanding all the Bytes in nanoGPT".
    """
    gradient = Term("gradient of the float32 copy", "b*s*V", 4, (), "the first that backward makes")
    return Formula("GPT's peak, estimated", (*_kept_for_good(), *autocast_activations().terms, gradient))

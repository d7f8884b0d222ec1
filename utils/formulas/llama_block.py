"""What a Llama's blocks keep for backward: each tensor of a block, by sub-layers."""

from dataclasses import replace

from every_byte.formula.formula import Selector, Term, TermRow

from .decoder_settings import DecoderSettings, Widest

_KERNELS = {
    "flash": ("ScaledDotProductFlashAttention*", "logsumexp", "a*b*s", (("rng_state", 16), ("unused", 8))),
    "efficient": ("ScaledDotProductEfficientAttention*", "log_sumexp", "a*b*up(s, 32)", ()),
    "cudnn": ("ScaledDotProductCudnnAttention*", "logsumexp", "a*b*s", (("philox_seed", 8), ("philox_offset", 8))),
}


def llama_block_saved(settings: DecoderSettings, blocks: str = "*", n: str = "L", n_behind: str = "") -> list[Term]:
    """What n blocks, those of this number or all, keep for backward, sub-layer by sub-layer.

    Shapes: x[b, s, d] -> norm1 -> q of a heads, k and v of g -> attention -> + x -> norm2 -> gate, up [b, s, f] -> +;
            with adapters of rank r beside each Linear
    Counts: each storage once. With adapters `n_behind` of the n have a trained one before them: the first norm of the
            first block has none, and keeps nothing. Not the parameters, nor autocast's copies of them.
    Unit:   bytes, exact.
    """
    n_first = (n_behind or n) if settings.is_adapted else n
    own = "reduce" if settings.is_adapted else ""  # what keeps the input of a frozen Linear is its adapter
    inputs = tuple(Selector(_linear(f"attention.{name}", own), "MmBackward*", "self") for name in "qkv")
    copies = "3*" if settings.is_autocast else ""
    why = "weight gradients of q, k and v" + (", a copy for each" if copies else "")
    rows = [
        ("attention: input", f"{copies}b*s*d", settings.element_bytes, inputs, why),
        *(_kernel(settings, own) if settings.attention in _KERNELS else _spelt_out(settings, own)),
        *norm_saved("norm2", settings),
        *_mlp(settings, own),
        *(_reduced(settings) if settings.is_adapted else ()),
    ]
    of_each = [(n_first, *row) for row in norm_saved("norm1", settings)] + [(n, *row) for row in rows]
    return [
        Term(name, f"({many})*({size})", each, tuple(_inside(one, f"blocks.{blocks}") for one in selectors), why)
        for many, name, size, each, selectors, why in of_each
    ]


PRODUCT = ("mlp: product", "mlp: product, reduced")
"""Of a block's terms those that `down` keeps, whose backward is the first."""


def _linear(name: str, own: str) -> str:
    return f"{name}.{own}" if own else name


def _reduced(settings: DecoderSettings) -> list[TermRow]:
    """What each adapter makes of its Linear's input."""
    e, node = settings.element_bytes, "MmBackward*"
    others = [f"attention.{name}" for name in ("q", "k", "v", "out")] + ["mlp.gate", "mlp.up"]
    six = tuple(Selector(f"{name}.expand", node, "self") for name in others)
    why = "weight gradients of the adapters"
    return [
        ("adapters: reduced", "6*b*s*r", e, six, why),
        ("mlp: product, reduced", "b*s*r", e, (Selector("mlp.down.expand", node, "self"),), why),
    ]


def _inside(selector: Selector, module: str) -> Selector:
    return replace(selector, module=f"{module}.{selector.module}")


def norm_saved(module: str, settings: DecoderSettings) -> list[TermRow]:
    """What an RMSNorm keeps for backward: rows of name, size, element bytes, selectors and reason."""
    node = "FusedRmsNormBackward*"
    return [
        (f"{module}: input", "b*s*d", settings.weight_bytes, (Selector(module, node, "input"),), "both gradients"),
        (f"{module}: statistic", "b*s", 4, (Selector(module, node, "result1"),), "1/root mean square, in float32"),
    ]


def _kernel(settings: DecoderSettings, own: str) -> list[TermRow]:
    e = settings.element_bytes
    node, logsumexp, rows, random = _KERNELS[settings.attention]
    q, *kv = (Selector("attention", node, slot) for slot in ("query", "key", "value"))
    output = Selector("attention", node, "output"), Selector(_linear("attention.out", own), "MmBackward*", "self")
    seeds = tuple(Selector("attention", node, slot) for slot, _ in random)
    n_bytes = sum(n for _, n in random)
    return [
        ("attention: q", "b*s*d", e, (q,), "turned; gradients of k"),
        ("attention: k, v", "2*b*s*d*g/a", e, tuple(kv), "of g heads, k turned; gradients of q and of the weights"),
        ("attention: logsumexp", rows, 4, (Selector("attention", node, logsumexp),), "to compute the softmax again"),
        *([("attention: random state", str(n_bytes), 1, seeds, "of dropout, which is off")] if random else []),
        ("attention: output", "b*s*d", e, output, "weight gradient of out; gradient of the softmax"),
    ]


def _spelt_out(settings: DecoderSettings, own: str) -> list[TermRow]:
    """The book's own: under autocast the softmax is in float32. PyTorch's, "math", is in float32 whatever comes in."""
    is_math = settings.attention == "math"
    each = 4 if is_math else settings.element_bytes
    has_copy = settings.is_autocast and not is_math
    bmm, softmax = (
        "BmmBackward*",
        Selector("attention", "SoftmaxBackward*" if not is_math else "*SoftmaxBackward*", "result"),
    )
    scores, applied = Selector("attention", bmm, "self", 1), Selector("attention", bmm, "self", 2)
    kv = Selector("attention", bmm, "mat2", 1), Selector("attention", bmm, "mat2", 2)
    mask = (Selector("attention", "MaskedFillBackward*", "mask"),)
    output = (Selector(_linear("attention.out", own), "MmBackward*", "self"),)
    rows: list[TermRow] = [
        ("q", "b*s*d", each, (scores,), "turned; gradient of k"),
        ("k, v", "2*b*s*d", each, kv, "repeated for each query; gradients of q and of the weights"),
        *([] if is_math else [("causal mask", "s**2", 1, mask, "a bool each")]),
        ("weights", "a*b*s**2", 4 if has_copy else each, (softmax,) if has_copy else (softmax, applied),
         "derivative of the softmax, from its output"),
        *([("weights, in half precision", "a*b*s**2", each, (applied,), "gradient of v")] if has_copy else []),
        ("output", "b*s*d", settings.element_bytes, output, "weight gradient of out"),
    ]  # fmt: skip
    return [(f"attention: {row[0]}", *row[1:]) for row in rows]


def _mlp(settings: DecoderSettings, own: str) -> list[TermRow]:
    e = settings.element_bytes
    copies = "2*" if settings.is_autocast else ""
    inputs = tuple(Selector(_linear(f"mlp.{name}", own), "MmBackward*", "self") for name in ("gate", "up"))
    return [
        ("mlp: input", f"{copies}b*s*d", e, inputs, "weight gradients of gate and up"),
        ("mlp: gate", "b*s*f", e, (Selector("mlp", "SiluBackward*", "self"),), "derivative of silu"),
        ("mlp: silu", "b*s*f", e, (Selector("mlp", "MulBackward*", "self"),), "gradient of up"),
        ("mlp: up", "b*s*f", e, (Selector("mlp", "MulBackward*", "other"),), "gradient of silu"),
        (
            "mlp: product",
            "b*s*f",
            e,
            (Selector(_linear("mlp.down", own), "MmBackward*", "self"),),
            "weight gradient of down",
        ),
    ]


def tables_in_half(settings: DecoderSettings) -> list[Term]:
    """Of rotary positions: a checkpoint's blocks have a name for them, others keep them."""
    if settings.weight_bytes == 4 or not (settings.keeps_on_gpu or settings.is_checkpointed):
        return []
    kept = Selector("blocks.*.attention", "MulBackward*", "other"), Selector("rotation", "activations")
    return [Term("rotary tables, in half precision", "2*s*d/a", 2, kept, "cosines and sines, the same for all blocks")]


def widest(settings: DecoderSettings) -> Widest:
    """Where silu and up have got their gradients, and the product of both has its own still; both may be back."""
    return Widest("aten::mul.Tensor", "Mul*", "mlp", 5 if settings.is_elsewhere else 3)

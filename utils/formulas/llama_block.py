"""What a Llama has, and what its blocks keep for backward: parameters, and each tensor of a block by sub-layers."""

from dataclasses import dataclass, replace

from every_byte.formula.expressions import Expression
from every_byte.formula.formula import Selector, Term

from .settings import A100_WORKSPACE_BYTES, OPTIMIZERS, PRECISIONS, InPrecision

ATTENTIONS = ("flash", "efficient", "cudnn", "explicit", "math")
"""PyTorch's kernels; the book's own spelling of attention; and PyTorch's, where no kernel takes grouped queries."""

BLOCK_WEIGHTS = "2*d**2 + 2*g*d**2/a + 3*d*f"  # the weights of a block's Linears
_KERNELS = {
    "flash": ("ScaledDotProductFlashAttention*", "logsumexp", "a*b*s", (("rng_state", 16), ("unused", 8))),
    "efficient": ("ScaledDotProductEfficientAttention*", "log_sumexp", "a*b*up(s, 32)", ()),
    "cudnn": ("ScaledDotProductCudnnAttention*", "logsumexp", "a*b*s", (("philox_seed", 8), ("philox_offset", 8))),
}


@dataclass(frozen=True, kw_only=True)
class LlamaSettings(InPrecision):
    """What a training step of a `Llama` depends on beside its sizes.

    `precision` is that of weights and activations, or "autocast": float32 weights under autocast to a half type.
    `attention` is what runs, one of ATTENTIONS. `is_tied`: the head's weight is the embedding's. `is_checkpointed`:
    each block runs through a checkpoint. `holds_logits`, `holds_gradients` and `workspace_bytes` are those of
    `GPTSettings`; the step is not the first.

    Raises: ValueError for a precision, an attention or an optimizer that is not known.
    """

    precision: str = "bfloat16"
    attention: str = "flash"
    is_tied: bool = False
    is_checkpointed: bool = False
    optimizer: str = "AdamW, fused"
    holds_logits: bool = False
    holds_gradients: bool = False
    workspace_bytes: int | str = A100_WORKSPACE_BYTES

    def __post_init__(self) -> None:
        known = {"precision": PRECISIONS, "attention": ATTENTIONS, "optimizer": OPTIMIZERS}
        for name, options in known.items():
            if getattr(self, name) not in options:
                raise ValueError(f"{name} must be one of {', '.join(options)}: got {name}={getattr(self, name)!r}.")


def llama_parameter_count(*, is_tied: bool = False) -> Expression:
    """The number of a Llama's parameters.

    Shapes: tokens[V, d]; in each of L blocks q[d, d], k and v[g d/a, d], out[d, d], gate, up and down of d f each, and
            two norms of d; a last norm of d; head[V, d]
    Counts: the head once, with the embedding, if it is tied to it. Not the tables of rotary positions, buffers.
    Source: held to `Llama` by tests/formulas/test_llama.py.
    """
    return Expression(f"L*({BLOCK_WEIGHTS} + 2*d) + d + {'' if is_tied else '2*'}V*d")


def llama_block_saved(settings: LlamaSettings, blocks: str = "*", n: str = "L") -> list[Term]:
    """What n blocks, those of this number or all, keep for backward, sub-layer by sub-layer.

    Shapes: x[b, s, d] -> norm1 -> q of a heads, k and v of g -> attention -> + x -> norm2 -> gate, up [b, s, f] -> +
    Counts: each storage once, all parameters trained. Not the parameters, nor autocast's copies of them.
    Unit:   bytes, exact.
    """
    e = settings.element_bytes
    copies = "3*" if settings.is_autocast else ""
    inputs = tuple(Selector(f"attention.{name}", "MmBackward*", "self") for name in "qkv")
    why = "weight gradients of q, k and v" + (", a copy for each" if copies else "")
    rows = [
        *norm_saved("norm1", settings),
        ("attention: input", f"{copies}b*s*d", e, inputs, why),
        *(_kernel(settings) if settings.attention in _KERNELS else _spelt_out(settings)),
        *norm_saved("norm2", settings),
        *_mlp(settings),
    ]
    return [
        Term(name, f"{n}*({size})", each, tuple(_inside(one, f"blocks.{blocks}") for one in selectors), why)
        for name, size, each, selectors, why in rows
    ]


def _inside(selector: Selector, module: str) -> Selector:
    return replace(selector, module=f"{module}.{selector.module}")


def norm_saved(module: str, settings: LlamaSettings) -> list[tuple]:
    """What an RMSNorm keeps for backward: rows of name, size, element bytes, selectors and reason."""
    node = "FusedRmsNormBackward*"
    return [
        (f"{module}: input", "b*s*d", settings.weight_bytes, (Selector(module, node, "input"),), "both gradients"),
        (f"{module}: statistic", "b*s", 4, (Selector(module, node, "result1"),), "1/root mean square, in float32"),
    ]


def _kernel(settings: LlamaSettings) -> list[tuple]:
    e = settings.element_bytes
    node, logsumexp, rows, random = _KERNELS[settings.attention]
    q, *kv = (Selector("attention", node, slot) for slot in ("query", "key", "value"))
    output = Selector("attention", node, "output"), Selector("attention.out", "MmBackward*", "self")
    seeds = tuple(Selector("attention", node, slot) for slot, _ in random)
    n_bytes = sum(n for _, n in random)
    return [
        ("attention: q", "b*s*d", e, (q,), "turned; gradients of k"),
        ("attention: k, v", "2*b*s*d*g/a", e, tuple(kv), "of g heads, k turned; gradients of q and of the weights"),
        ("attention: logsumexp", rows, 4, (Selector("attention", node, logsumexp),), "to compute the softmax again"),
        *([("attention: random state", str(n_bytes), 1, seeds, "of dropout, which is off")] if random else []),
        ("attention: output", "b*s*d", e, output, "weight gradient of out; gradient of the softmax"),
    ]


def _spelt_out(settings: LlamaSettings) -> list[tuple]:
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
    output = (Selector("attention.out", "MmBackward*", "self"),)
    rows = [
        ("q", "b*s*d", each, (scores,), "turned; gradient of k"),
        ("k, v", "2*b*s*d", each, kv, "repeated for each query; gradients of q and of the weights"),
        *([] if is_math else [("causal mask", "s**2", 1, mask, "a bool each")]),
        ("weights", "a*b*s**2", 4 if has_copy else each, (softmax,) if has_copy else (softmax, applied),
         "derivative of the softmax, from its output"),
        *([("weights, in half precision", "a*b*s**2", each, (applied,), "gradient of v")] if has_copy else []),
        ("output", "b*s*d", settings.element_bytes, output, "weight gradient of out"),
    ]  # fmt: skip
    return [(f"attention: {name}", *rest) for name, *rest in rows]


def _mlp(settings: LlamaSettings) -> list[tuple]:
    e = settings.element_bytes
    copies = "2*" if settings.is_autocast else ""
    inputs = tuple(Selector(f"mlp.{name}", "MmBackward*", "self") for name in ("gate", "up"))
    return [
        ("mlp: input", f"{copies}b*s*d", e, inputs, "weight gradients of gate and up"),
        ("mlp: gate", "b*s*f", e, (Selector("mlp", "SiluBackward*", "self"),), "derivative of silu"),
        ("mlp: silu", "b*s*f", e, (Selector("mlp", "MulBackward*", "self"),), "gradient of up"),
        ("mlp: up", "b*s*f", e, (Selector("mlp", "MulBackward*", "other"),), "gradient of silu"),
        ("mlp: product", "b*s*f", e, (Selector("mlp.down", "MmBackward*", "self"),), "weight gradient of down"),
    ]

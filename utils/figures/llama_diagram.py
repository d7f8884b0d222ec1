"""A Llama's block as a diagram: each tensor that it keeps for backward at its place, in bytes a token."""

from collections.abc import Iterable

from utils.formulas.llama_block import llama_block_saved
from utils.formulas.llama_settings import LlamaSettings

from .diagram import WIDTH, Diagram

_TENSOR, _STEP, _TOP = 40, 30, 44
_GAP = 14
_COLUMN = (WIDTH - _GAP) / 2
_ATTENTION = (
    ("norm1: input", "x"),
    "norm1",
    ("attention: input", "norm1's result"),
    "q, k, v, and turn q, k",
    ("attention: q", "q"),
    ("attention: k, v", "k, v"),
    "flash attention",
    ("attention: logsumexp", "logsumexp"),
    ("attention: output", "heads' output"),
    "out, + x",
)
_MLP = (
    ("norm2: input", "x + attention"),
    "norm2",
    ("mlp: input", "norm2's result"),
    "gate, silu; up",
    ("mlp: gate", "gate's result"),
    ("mlp: silu", "its silu"),
    ("mlp: up", "up's result"),
    "times",
    ("mlp: product", "product"),
    "down, + x",
)


def llama_block(settings: LlamaSettings, **letters: int) -> Diagram:
    """Attention at the left, the MLP at the right, from x to y; every box is kept for backward.

    `letters` are d, a, g and f.

    Counts: what `llama_block_saved` does, but the norms' statistics and the random state, which are in the sum alone.
    Unit:   bytes for one token, in bfloat16 and float32.
    """
    one = letters | {"b": 1, "s": 1, "L": 1}
    terms = {term.name: term.size.value(one) for term in llama_block_saved(settings)}
    n_items = [_height(column) for column in (_ATTENTION, _MLP)]
    state = terms.pop("attention: random state")
    said = "; ".join(f"{name}: {n:,} bytes" for name, n in terms.items())
    said = f"{said}; and once for all of them attention's random state: {state} bytes"
    total = sum(terms.values())
    diagram = Diagram(f"The tensors that a Llama's block keeps for each token: {said}.", _TOP + max(n_items) + 34)
    for number, (title, column) in enumerate((("attention", _ATTENTION), ("MLP", _MLP))):
        left = number * (_COLUMN + _GAP)
        diagram.text(left + _COLUMN / 2, 18, title, anchor="middle")
        y = float(_TOP)
        for item in column:
            if isinstance(item, str):
                diagram.arrow((left + 16, y), (left + 16, y + _STEP))
                diagram.text(left + 26, y + _STEP / 2, item, tone="faint", size=13)
                y += _STEP
            else:
                term, name = item
                diagram.box(left, y, _COLUMN, _TENSOR - 4, name, f"{terms[term]:,}", colour="activations")
                y += _TENSOR
    diagram.text(WIDTH / 2, diagram.height - 14, f"kept, bytes for each token: {total:,}", anchor="middle")
    return diagram


def _height(column: Iterable[str | tuple[str, str]]) -> float:
    return sum(_STEP if isinstance(item, str) else _TENSOR for item in column)

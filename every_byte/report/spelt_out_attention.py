"""Attention that a program composes of two products and a softmax, where a fused kernel would keep no scores."""

from collections import Counter
from dataclasses import dataclass
from math import prod

import torch

from every_byte.gpu.operators.attention.unfused import fused_in
from every_byte.ledger.events import Event
from every_byte.ledger.rows import Row, shape_and_dtype
from every_byte.ledger.source_lines import Line
from every_byte.units import exact

from .finding import Finding, named
from .run import Run

_SMALL = 20  # less than so much of the peak is not worth a line
_PRODUCTS = ("aten::bmm", "aten::baddbmm", "aten::matmul")
_SOFTMAX = "aten::_softmax"
_OF_PYTORCH = "torch/nn/functional.py", "multi_head_attention_forward"


@dataclass(frozen=True)
class _Attention:
    """One such attention: the position of its softmax, the module, the shape of the scores, and of the product."""

    position: int
    module: str
    scores: tuple[int, ...]
    result: tuple[int, ...]
    of_type: torch.dtype
    line: Line | None
    is_pytorchs: bool


def spelt_out_attention(run: Run) -> Finding | None:
    """Scores that are there at the instant that matters, and that a fused kernel of the GPU would not keep.

    Counts: what has the scores' shape and was made between the two products: scores, masked, scaled, dropped out, cast,
            and their softmax. A softmax of routing weights or of logits stands between no two products.
    """
    found = _attentions(run)
    rows = list({row.allocation: row for one in found for row in _scores(run, one)}.values())
    n_bytes = sum(row.n_bytes + row.slack_bytes for row in rows)
    if not rows or n_bytes * _SMALL < run.account.allocated_bytes:
        return None
    first = found[0]
    fused = fused_in(run.spec, (*first.scores[:-1], first.result[-1]), first.scores[-1], first.of_type)
    if fused is None:
        return None
    lines = Counter({one.line: prod(one.scores) for one in found if one.line is not None})
    line = lines.most_common(1)[0][0] if lines else None
    shape = "×".join(map(str, first.scores))
    way_out = (
        "call nn.MultiheadAttention with need_weights=False"
        if first.is_pytorchs
        else f"F.scaled_dot_product_attention(q, k, v, …){fused}"
    )
    return Finding(
        "spelt-out attention",
        n_bytes,
        f"Attention is spelt out as products and a softmax{named(run, line)}, and {exact(n_bytes)} of its scores, "
        f"{shape} in each layer, are there at the peak: {way_out} keeps none of them on {run.gpu}.",
        line,
    )


def _attentions(run: Run) -> list[_Attention]:
    """Softmaxes between two products of one module: the first gives as many numbers, the second takes them."""
    trace = run.trace
    events = [
        (i, event)
        for i, event in enumerate(trace.events)
        if event.action == "alloc" and event.phase != "backward" and event.operation in (*_PRODUCTS, _SOFTMAX)
    ]
    found = []
    for (_, before), (i, softmax), (_, after) in zip(events, events[1:], events[2:]):
        if softmax.operation != _SOFTMAX or _SOFTMAX in (before.operation, after.operation):
            continue
        of = [shape_and_dtype(trace.owners.tensors.get(one.allocation)) for one in (before, softmax, after)]
        (product, of_type), (scores, _), (result, _) = of
        if not (product and scores and result and of_type) or not before.module == softmax.module == after.module:
            continue
        if prod(product) != prod(scores) or product[-2:] != scores[-2:] or result[:-1] != product[:-1]:
            continue
        if min(scores[-2:]) > 1:
            found.append(_made(i, softmax, scores, result, of_type))
    return found


def _made(i: int, event: Event, scores: tuple[int, ...], result: tuple[int, ...], of_type: torch.dtype) -> _Attention:
    stack = event.stack
    return _Attention(i, event.module, scores, result, of_type, stack.own, stack.passes(*_OF_PYTORCH))


def _scores(run: Run, one: _Attention) -> list[Row]:
    """What of its scores is there: of their size, made by its module in the forward that it is of."""
    made_at, made = run.trace.attribution().made_at, run.trace.attribution().made
    begins, ends = _span(run, one.position)
    return [
        row
        for row in _rows_of(run, prod(one.scores))
        if begins <= made_at[row.allocation] < ends
        and made[row.allocation].module == one.module
        and made[row.allocation].phase != "backward"
        and row.shape is not None
        and row.shape[-2:] == one.scores[-2:]
    ]


def _rows_of(run: Run, n: int) -> list[Row]:
    by_size: dict[int, list[Row]] | None = run.__dict__.get("_rows_by_numbers")
    if by_size is None:
        by_size = run.__dict__["_rows_by_numbers"] = {}
        for row in run.account.rows:
            by_size.setdefault(prod(row.shape or ()), []).append(row)
    return by_size.get(n, [])


def _span(run: Run, position: int) -> tuple[int, int]:
    """The forward in which a position lies; all there is where it lies in none."""
    for start, end, kind in run.trace.owners.spans:
        if kind == "forward" and start <= position < end:
            return start, end
    return 0, len(run.trace.events)

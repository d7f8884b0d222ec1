"""Tensor parallelism as diagrams: a DTensor on a mesh, three exchanges, what is whole in a block and in a model."""

from collections.abc import Mapping

from every_byte.units import GiB, short
from utils.formulas.tensor_parallel import rank_saved

from .diagram import Diagram

_RANKS = 4
_WHOLE = 270  # across, of a whole tensor: with half of it, "1/2 of the hidden numbers" fits next to it
_LETTERS = "ABCD"
_ROWS, _SIDE = 8, 56
_PLACEMENTS = {
    "Shard(0)": f"{_ROWS // _RANKS} of the {_ROWS} rows",
    "Shard(1)": f"{_ROWS // _RANKS} of the {_ROWS} columns",
    "Replicate()": "all of it",
}
"""PyTorch's names, and what each of the ranks holds of a tensor."""
_EXCHANGES = {
    "all-reduce": ("each gives a tensor and gets the sum Σ", "whole", "sum"),
    "all-gather": ("each gives a share and gets them all", "share", "all"),
    "reduce-scatter": ("each gives a tensor and gets a share of Σ", "whole", "share of sum"),
}
# What each step of a block takes, by the term that counts the tensor; what the ranks divide it by; whether its
# forward ends a rank's term of a sum.
_STEPS = (
    ("norm1", "norm1: input", "positions"),
    ("qkv", "attention: input", "positions"),
    ("attention", "attention: q, k, v", "heads"),
    ("out", "attention: output", "heads"),
    ("sum", "norm1: input", "positions"),
    ("norm2", "norm2: input", "positions"),
    ("up", "mlp: input", "positions"),
    ("φ", "mlp: activation input", "hidden numbers"),
    ("down", "mlp: down input", "hidden numbers"),
    ("sum", "norm2: input", "positions"),
)

_WAYS = ("tensor", "sequence", "selective")
"""Ways to divide a model among ranks, each with less whole on all of them."""
_NUMBER = 48  # across, of a bar with room for a number in it


def placements() -> Diagram:
    """A weight as a DTensor on a mesh of four ranks, placed in three ways: what each rank holds of it."""
    said = "; ".join(f"{name}: each holds {what}" for name, what in _PLACEMENTS.items())
    diagram = Diagram(f"A weight of {_ROWS} x {_ROWS} on a mesh of {_RANKS} ranks. {said}.", 320)
    for rank in range(_RANKS):
        diagram.text(_column(rank) + 42, 14, f"rank {rank}", anchor="middle")
    for panel, (name, what) in enumerate(_PLACEMENTS.items()):
        y = 34 + 96 * panel
        diagram.text(8, y + 6, f"{name}: each rank holds {what}")
        for rank in range(_RANKS):
            x, own = _column(rank), _SIDE / _RANKS
            diagram.box(x, y + 20, 84, _SIDE, dashed=True)
            if name == "Shard(0)":
                diagram.box(x, y + 20 + own * rank, 84, own, colour="parameters")
            elif name == "Shard(1)":
                diagram.box(x + 84 / _RANKS * rank, y + 20, 84 / _RANKS, _SIDE, colour="parameters")
            else:
                diagram.box(x, y + 20, 84, _SIDE, colour="parameters")
    return diagram


def three_exchanges() -> Diagram:
    """What each of four ranks has before and after an all-reduce, an all-gather and a reduce-scatter."""
    said = "; ".join(f"{name}: {what}" for name, (what, _, _) in _EXCHANGES.items())
    diagram = Diagram(f"Three exchanges between {_RANKS} ranks. {said}.", 372)
    for rank in range(_RANKS):
        diagram.text(_column(rank) + 42, 14, f"rank {rank}", anchor="middle")
    for panel, (name, (what, before, after)) in enumerate(_EXCHANGES.items()):
        y = 32 + 116 * panel
        diagram.text(8, y + 8, f"{name}: {what}")
        for row, (when, content) in enumerate((("before", before), ("after", after))):
            top = y + 22 + 42 * row
            diagram.text(8, top + 14, when, tone="faint", size=13)
            for rank in range(_RANKS):
                _held(diagram, _column(rank), top, rank, content)
    return diagram


def _column(rank: int) -> int:
    return 66 + 93 * rank


def _held(diagram: Diagram, x: float, y: float, rank: int, content: str) -> None:
    """A rank's tensor: whole, or of its four parts those that the rank has."""
    if content in ("whole", "sum"):
        diagram.box(x, y, 84, 28, _LETTERS[rank] if content == "whole" else "Σ", colour="activations")
        return
    if content != "all":
        diagram.box(x, y, 84, 28, dashed=True)
    for part in range(_RANKS):
        if content == "all" or part == rank:
            name = f"Σ{part}" if content == "share of sum" else str(part)
            diagram.box(x + 21 * part + 1, y, 19, 28, name, colour="activations")


def split_block(*, t: int, sequence: bool = False, **letters: int) -> Diagram:
    """The forward of a block on one of t ranks: what each step takes, whole or cut, and where ranks exchange.

    `letters` are b, s, d, a and e.

    Unit: bytes of each tensor on the rank, rounded.
    Source: the terms of `rank_saved`.
    """
    saved = rank_saved(attention="explicit", activation="gelu", sequence=sequence)
    on_rank, on_one = (saved.by_term(**letters, t=ranks) for ranks in (t, 1))
    rows = _with_exchanges(sequence)
    title = "tensor and sequence parallel" if sequence else "tensor parallel"
    n_whole = sum(on_rank[term] == on_one[term] for _, term, _ in _STEPS)
    exchanges = ", ".join(name for name, term, _ in rows if not term)
    alt = f"A block on one of {t} ranks, {title}: {n_whole} of {len(_STEPS)} steps take a whole tensor"
    diagram = Diagram(f"{alt}; between them, in order: {exchanges}.", 34 + sum(_height(term) for _, term, _ in rows))
    diagram.text(8, 15, "step")
    diagram.text(108, 15, f"what it takes, on one of {t} ranks")
    y = 32
    for name, term, divided in rows:
        if not term:
            diagram.box(8, y, 424, 22, name, dashed=True)
        else:
            _step(diagram, y, name, on_rank[term], on_one[term], f"1/{t} of the {divided}")
        y += _height(term)
    return diagram


def _step(diagram: Diagram, y: float, name: str, own_bytes: int, whole_bytes: int, share: str) -> None:
    diagram.box(8, y, 88, 26, name)
    width = _WHOLE * own_bytes / whole_bytes
    if own_bytes == whole_bytes:
        diagram.box(108, y, width, 26, f"whole: {short(own_bytes)}", colour="activations")
        return
    is_long = width > _WHOLE / 4  # then there is less room for the words after it
    diagram.box(108, y, width, 26, *([short(own_bytes)] if is_long else []), colour="activations")
    diagram.text(108 + width + 8, y + 13, share if is_long else f"{share}: {short(own_bytes)}")


def _with_exchanges(sequence: bool) -> list[tuple[str, str, str]]:
    """The steps, with the exchanges before the products that need all positions and after a sum's terms."""
    rows = []
    for step in _STEPS:
        if step[0] in ("qkv", "up") and sequence:
            rows.append(("all-gather", "", ""))
        if step[0] == "sum":
            rows.append(("reduce-scatter" if sequence else "all-reduce", "", ""))
        rows.append(step)
    return rows


def _height(term: str) -> int:
    return 32 if term else 28


def kept_of_models(kept: Mapping[str, Mapping[str, int]], card: tuple[str, int]) -> Diagram:
    """A bar for each of _WAYS to divide each model: what a rank keeps of its layers, next to a card's room.

    `kept` has the bytes by model and way, as `utils.experiments.rank_steps.kept_of_models` returns them; `card` is a
    name and the bytes that there are for PyTorch, a dashed line.

    Unit:   the numbers are in GiB.
    Raises: KeyError for a model without one of these ways.
    """
    room, most = card[1], max(max(ways[way] for way in _WAYS) for ways in kept.values())
    unit, step = 270 / max(most, room), 20 * len(_WAYS) + 12
    said = "; ".join(
        f"{name}: {', '.join(f'{way} {short(ways[way])}' for way in _WAYS)}" for name, ways in kept.items()
    )
    diagram = Diagram(
        f"What one of 8 ranks keeps of {len(kept)} models. {said}. {card[0]} has {short(room)}.", 28 + step * len(kept)
    )
    diagram.text(8, 12, "GiB on one of 8 ranks", tone="faint", size=13)
    for number, (name, ways) in enumerate(kept.items()):
        y = 28 + step * number
        diagram.text(8, y + 30, name)
        for way in _WAYS:
            diagram.text(130, y + 10, way, anchor="end", size=13)
            bar = diagram.box(138, y + 2, unit * ways[way], 16, colour="activations")
            is_long = bar.width > _NUMBER
            x = bar.x + 6 if is_long else bar.x + bar.width + 6
            diagram.text(x, y + 10, f"{ways[way] / GiB:.1f}", size=13, tone="on" if is_long else "ink")
            y += 20
    x = 138 + unit * room
    diagram.arrow((x, 22), (x, diagram.height - 6), dashed=True, head=False)
    diagram.text(x, 12, card[0], anchor="middle", size=13)
    return diagram

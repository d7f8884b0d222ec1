"""ZeRO and FSDP2 as diagrams: which rank holds which bytes of a weight, and what is gathered in forward."""

from utils.formulas.data_parallel import STAGES

from .diagram import Diagram

_STATES = {"weight": (4, 3, "parameters"), "gradient": (4, 2, "gradients"), "averages": (8, 1, "optimizer state")}
"""Of a weight's state in float32: its bytes, from which of ZeRO's stages on it is divided, and its colour."""
_UNIT = 7  # of a byte
_MOST_RANKS = 8


def bytes_per_weight(stage: int, n: int) -> dict[str, float]:
    """What one of n ranks holds for each of the model's weights, by ZeRO's stage: parts of a byte where n is large.

    Counts: a weight, its gradient and Adam's two averages in float32; not DDP's buckets, nor what is gathered.
    Unit:   bytes.
    Source: Rajbhandari et al. 2020, section 5; held to the closed form of `rank_states` by its test.
    """
    return {name: size / n if stage >= first else size for name, (size, first, _) in _STATES.items()}


def zero_stages(n: int = 4) -> Diagram:
    """For each stage the states of a model on n ranks: a box for each, filled where the rank holds it.

    Raises: ValueError for more ranks than 8.
    """
    if n not in range(1, _MOST_RANKS + 1):
        raise ValueError(f"n must be 1 to {_MOST_RANKS}, ranks that can be told apart: got {n=}; draw fewer.")
    totals = {stage: sum(bytes_per_weight(stage, n).values()) for stage in STAGES}
    said = "; ".join(f"stage {stage}, {total:g}" for stage, total in totals.items())
    diagram = Diagram(f"The bytes of a weight's state that each of {n} ranks holds. {said}.", 352)
    for panel, (stage, total) in enumerate(totals.items()):
        x, y = 92 + 176 * (panel % 2), 20 + 176 * (panel // 2)
        diagram.text(x + 80, y - 6, f"stage {stage}: {total:g} bytes", anchor="middle")
        if panel % 2 == 0:
            _names(diagram, y + 8)
        for rank in range(n):
            _states_of(diagram, x + 160 / n * rank, y + 8, 160 / n - 6, stage, rank, n)
            diagram.text(x + 160 / n * (rank + 0.5) - 3, y + 138, f"{rank}", anchor="middle", tone="faint", size=13)
    diagram.text(8, 20 + 138, "rank", tone="faint", size=13)
    diagram.text(8, 196 + 138, "rank", tone="faint", size=13)
    return diagram


def _names(diagram: Diagram, y: float) -> None:
    for name, (size, _, _) in _STATES.items():
        diagram.text(8, y + _UNIT * size / 2, f"{name} {size}", size=13)
        y += _UNIT * size + 4


def _states_of(diagram: Diagram, x: float, y: float, width: float, stage: int, rank: int, n: int) -> None:
    for size, first, colour in _STATES.values():
        height = _UNIT * size
        own = height / n if stage >= first else height
        if own < height:
            diagram.box(x, y, width, height, dashed=True)
        diagram.box(x, y + (rank * own if own < height else 0), width, own, colour=colour)
        y += height + 4


def gathered_frames(L: int) -> Diagram:
    """What FSDP2 has gathered of a GPT of L blocks at five instants of forward, as boxes, the oldest at the bottom.

    R is everything outside the blocks, and B a block's weights: filled where they are copied out, dashed for the buffer
    in which they arrived, one rank's share after another.

    Source: held to `gathered` of utils.formulas.data_parallel by its test.
    """
    frames = (
        (("1: root", "gathered"), ("R", "buffer R")),
        (("2: block 1", "gathered"), ("R", "buffer R", "B", "buffer B")),
        (("3: block 2,", "and later"), ("R", "buffer B", "B", "buffer B")),
        (("4: after the", "last block"), ("R", "buffer B")),
        (("5: last block,", "all kept"), ("R", f"{L - 1} B", "buffer B", "B", "buffer B")),
    )
    said = "; ".join(f"{' '.join(name)}: {' + '.join(boxes)}" for name, boxes in frames)
    diagram = Diagram(f"What FSDP2 has gathered in forward. {said}.", 250)
    for column, (name, boxes) in enumerate(frames):
        x = 2 + 88 * column
        for line, words in enumerate(name):
            diagram.text(x + 42, 12 + 17 * line, words, anchor="middle", size=13)
        _stack(diagram, x, 246, boxes)
    return diagram


def _stack(diagram: Diagram, x: float, y: float, boxes: tuple[str, ...]) -> None:
    """Boxes one above the other, the first below."""
    for words in boxes:
        height = 44 if "R" in words else 60 if words[0].isdigit() else 24
        y -= height + 3
        is_buffer = words.startswith("buffer")
        diagram.box(x, y, 84, height, words, colour="" if is_buffer else "gathered parameters", dashed=is_buffer)

"""A training step over time, by kind of memory, with the four places where it may be at its highest."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from every_byte.ledger.levels import levels
from every_byte.palette import Category
from every_byte.units import GiB, short
from utils.experiments.llama_step import LlamaStep
from utils.experiments.remedies import highest_by_place, run_of

from .diagram import WIDTH, Diagram

KINDS = ("parameters", "optimizer state", "activations", "gradients", "temporaries")
"""What has a colour of its own, from below; the last one takes in all other categories."""
_PHASES = ("forward", "backward", "optimizer")
_LEFT, _RIGHT, _TOP, _FLOOR = 30, WIDTH - 6, 34, 270
_COLUMN = 2.0  # across: of the events in it the highest is drawn
_TICK = 4  # GiB
_LINE = 20  # from one label to the next
_LEGEND = ((8, 0), (126, 0), (278, 0), (8, 1), (126, 1))  # where each kind's name is: across, and in which line


def four_places(step: LlamaStep) -> Diagram:
    """The second step, from forward to `zero_grad`: areas by KINDS, and a number at the highest moment of each place.

    Unit:   the axis is in GiB; the bytes of a place, rounded, are in the words for those who do not see the picture.
    Raises: ValueError for a step without checkpoints: there the highest block is right after the loss.
    """
    if not step.is_checkpointed:
        raise ValueError("step must have is_checkpointed=True: without, the highest block is right after the loss.")
    run, at = run_of(step), highest_by_place(step)
    first, last = run.trace.position(run.after), run.trace.position(run.until)
    by_event = [_by_kind(parts) for parts in levels(run.trace)[first : last + 1]]
    tops = {place: sum(by_event[position - first]) for place, position in at.items()}
    said = "; ".join(f"{number}, {place}: {short(n)}" for number, (place, n) in enumerate(tops.items(), start=1))
    diagram = Diagram(
        f"Memory by kind over one training step, and the four places where it may peak. {said}.", _FLOOR + 78
    )
    most_bytes = max(map(sum, by_event))
    across, up = (_RIGHT - _LEFT) / len(by_event), (_FLOOR - _TOP) / most_bytes
    _areas(diagram, by_event, across, up)
    ends = [run.trace.position(f"step {step.n_steps} {phase}") - first for phase in _PHASES]
    _axes(diagram, [_LEFT + across * end for end in (0, *ends)], up, most_bytes)
    points = [(_LEFT + across * (position - first), _FLOOR - up * tops[place]) for place, position in at.items()]
    _marks(diagram, [f"{number} {place}" for number, place in enumerate(at, start=1)], points)
    for (x, line), kind in zip(_LEGEND, KINDS, strict=True):
        y = _FLOOR + 44 + _LINE * line
        diagram.box(x, y - 6, 12, 12, colour=kind)
        diagram.text(x + 18, y, kind, size=13)
    return diagram


def _by_kind(parts: dict[str, int]) -> list[int]:
    """The bytes of each of KINDS; slack is not requested, and not drawn."""
    requested = {name: n for name, n in parts.items() if name != Category.SLACK}
    known = [requested.get(name, 0) for name in KINDS[:-1]]
    return [*known, sum(requested.values()) - sum(known)]


def _areas(diagram: Diagram, by_event: Sequence[Sequence[int]], across: float, up: float) -> None:
    n = max(1, round(_COLUMN / across))
    stacks = [[0, *accumulate(max(by_event[i : i + n], key=sum))] for i in range(0, len(by_event), n)]
    sides = [round(min(_LEFT + across * n * i, _RIGHT), 1) for i in range(len(stacks) + 1)]
    for number, kind in enumerate(KINDS):
        outline: list[tuple[float, float]] = []
        for k in (0, 1):  # along the lower edge, and back along the upper one
            heights = [round(_FLOOR - up * stack[number + k], 1) for stack in stacks]
            edge = [(x, y) for both, y in zip(pairwise(sides), heights, strict=True) for x in both]
            outline += _corners(edge)[:: -1 if k else 1]
        diagram.area(outline, kind)


def _corners(edge: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same edge, without the points between two others of the same height."""
    heights = [None, *(y for _, y in edge), None]
    return [point for i, point in enumerate(edge) if not heights[i] == point[1] == heights[i + 2]]


def _axes(diagram: Diagram, ends: Sequence[float], up: float, most_bytes: int) -> None:
    for tick in range(0, most_bytes // GiB + 1, _TICK):
        diagram.text(_LEFT - 6, _FLOOR - up * tick * GiB, str(tick), anchor="end", tone="faint", size=13)
    diagram.text(2, 12, "GiB", tone="faint", size=13)
    diagram.arrow((_LEFT, _FLOOR), (_RIGHT, _FLOOR), head=False)
    for (start, end), phase in zip(pairwise(ends), _PHASES, strict=True):
        diagram.arrow((end, _FLOOR), (end, _FLOOR + 6), head=False)
        diagram.text(min((start + end) / 2, _RIGHT - 28), _FLOOR + 16, phase, anchor="middle", tone="faint", size=13)


def _marks(diagram: Diagram, names: Sequence[str], points: Sequence[tuple[float, float]]) -> None:
    """The first place's name above it; those of the others, which are close together, to their left, one above each."""
    (x, y), *others = points
    diagram.text(x, y - 12, names[0], anchor="middle")
    left = min(x for x, _ in others) - 42
    top = min(y for _, y in others)
    for line, (name, point) in enumerate(zip(names[1:], others, strict=True)):
        height = top + _LINE * (0.5 - line)
        diagram.text(left, height, name, anchor="end")
        diagram.arrow((left + 4, height), (left + 14, height), point)

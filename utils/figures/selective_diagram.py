"""A block as a plain checkpoint and as a selective one: what each keeps, and what runs again in backward."""

from collections.abc import Iterable, Iterator

from every_byte.remedies.operations import Operation, Region
from every_byte.remedies.policies import Operator, Plan
from every_byte.units import short

from .diagram import WIDTH, Box, Diagram

_TOP, _BOX, _STEP = 40, 28, 38  # where the first box begins; a box's height; from one box to the next
_COLUMN, _BETWEEN = 206, 16
_LEFT = (WIDTH - 2 * _COLUMN - _BETWEEN) / 2
_LEGEND = (("kept", 12), ("again", 92), ("", 288))
_NAMES = {
    "native_layer_norm 1": "norm1",
    "addmm 1": "qkv",
    "addmm 2": "out",
    "add 1": "+",
    "native_layer_norm 2": "norm2",
    "addmm 3": "up",
    "gelu 1": "GELU",
    "addmm 4": "down",
    "add 2": "+",
}
"""What a block calls its operations; others go by PyTorch's name."""


def plain_and_selective(region: Region, operators: Iterable[Operator]) -> Diagram:
    """Two columns of a recorded block's operations: a plain checkpoint, and a policy that keeps what `operators` make.

    A box is filled if its result is kept, an outline if it runs again in backward, and dashed if neither.

    Counts: views are not drawn. Below each column, the bytes held besides the block's input and output, and the FLOPs
            that run again.
    Raises: as `Plan.keeping`.
    """
    plans = {"plain checkpoint": Plan(region, frozenset()), "selective checkpoint": Plan.keeping(region, operators)}
    said = ". ".join(f"{name}: {_in_words(plan)}" for name, plan in plans.items())
    rows = len(_drawn(region)) + 1
    height = _TOP + _STEP * rows + 84
    diagram = Diagram(f"The operations of a transformer block in two columns. {said}.", height)
    for number, (name, plan) in enumerate(plans.items()):
        _column(diagram, _LEFT + number * (_COLUMN + _BETWEEN), name, plan)
    for what, x in _LEGEND:
        meaning = {"kept": "kept", "again": "runs again in backward", "": "not needed again"}[what]
        _box(diagram, x, height - 26, 18, 18, what)
        diagram.text(x + 24, height - 17, meaning, size=13)
    return diagram


def _column(diagram: Diagram, x: float, name: str, plan: Plan) -> None:
    middle = x + _COLUMN / 2
    diagram.text(middle, 18, name, anchor="middle")
    above = diagram.box(x, _TOP, _COLUMN, _BOX, "x, the block's input", colour="activations")
    for number, (position, call) in enumerate(_drawn(plan.region), start=1):
        below = _box(
            diagram, x, _TOP + _STEP * number, _COLUMN, _BOX, _state(plan, position), _words(plan, position, call)
        )
        diagram.arrow(above.bottom, below.top)
        above = below
    y = above.bottom[1] + 18
    for line in _totals(plan):
        diagram.text(middle, y, line, anchor="middle")
        y += 17


def _drawn(region: Region) -> list[tuple[int, Operation]]:
    """The operations that make something new, with their positions."""
    return [(i, call) for i, call in enumerate(region.operations) if call.made - call.read]


def _state(plan: Plan, position: int) -> str:
    if position in plan.kept:
        return "kept"
    return "again" if plan.region.operations[position].runs_again else ""


def _words(plan: Plan, position: int, call: Operation) -> str:
    """An operation with what it costs here: bytes if it is kept, FLOPs if it runs again."""
    name = _name(call)
    if position in plan.kept:
        return f"{name}, {short(sum(plan.region.storage_bytes[storage] for storage in call.made))}"
    return f"{name}, {_gflop(call.flops)}" if call.flops and call.runs_again else name


def _name(call: Operation) -> str:
    name = f"{call.operator.overloadpacket.__name__} {call.nth}"
    return "attention" if "attention" in name else _NAMES.get(name, name)


def _gflop(flops: int) -> str:
    return f"{flops / 10**9:.1f} GFLOP"


def _totals(plan: Plan) -> tuple[str, str]:
    return f"held besides x: {short(plan.kept_bytes)}", f"runs again: {_gflop(plan.flops)}"


def _in_words(plan: Plan) -> str:
    def of(state: str) -> Iterator[str]:
        return (_name(call) for i, call in _drawn(plan.region) if _state(plan, i) == state)

    parts = (("kept", "kept"), ("run again", "again"), ("not needed again", ""))
    lists = (f"{words} {', '.join(of(state)) or 'none'}" for words, state in parts)
    return "; ".join((*lists, *_totals(plan)))


def _box(diagram: Diagram, x: float, y: float, width: float, height: float, what: str, words: str = "") -> Box:
    lines = [words] if words else []
    return diagram.box(x, y, width, height, *lines, colour="activations" if what == "kept" else "", dashed=not what)

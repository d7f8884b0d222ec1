"""A chain of layers as a diagram: what its segments hold when forward ends and at the peak, and what was run again."""

from collections.abc import Iterable

from .diagram import WIDTH, Diagram

_N_OF_NODE = 2  # what the node at the peak makes: (5.1)
_STEP, _SIDE, _LEFT = 23, 20, 14
_COLOURS = {"kept": "activations", "again": "activations", "node": ""}
_LETTERS = {"kept": "", "again": "2", "node": "+"}
_HEIGHT = 128  # of one way, both rows
_MOST = (WIDTH - _LEFT) // _STEP - _N_OF_NODE  # layers that fit across


def segments_held(n: int = 16, ways: Iterable[int | None] = (None, 1, 4)) -> Diagram:
    """For each number of segments two rows of n boxes, one for each layer's input: when forward ends, and at the peak.

    None keeps all. A box is filled if the tensor is there, with a 2 if it was computed a second time, and dashed if it
    is forgotten; behind the chain stand the tensors of backward's first node.

    Counts: the units of (5.1) and (5.2); the result of the last layer, which nothing keeps, is not drawn.
    Raises: ValueError for a number of segments that does not divide n, and for an n of more than 16 layers.
    """
    if n not in range(1, _MOST + 1):
        raise ValueError(f"n must be 1 to {_MOST}, the layers that fit across: got {n=}; draw a shorter chain.")
    ways = tuple(ways)
    said = [(_name(k), *_units(n, k)) for k in ways]
    alt = "; ".join(f"{name}: {kept} when forward ends, {_sum(kept, again)} at the peak" for name, kept, again in said)
    diagram = Diagram(f"A chain of {n} layers, units held. {alt}.", 40 + _HEIGHT * len(ways))
    for number, k in enumerate(ways):
        _draw(diagram, 16 + _HEIGHT * number, n, k)
    _legend(diagram, 18 + _HEIGHT * len(ways))
    return diagram


def _name(k: int | None) -> str:
    return "all kept" if k is None else f"{k} segment{'s' if k > 1 else ''}"


def _units(n: int, k: int | None) -> tuple[int, int]:
    """What is kept when forward ends, and what has run again at the peak."""
    if k is None:
        return n, 0
    if k not in (fit := [one for one in range(1, n + 1) if n % one == 0]):
        raise ValueError(f"ways must divide n: got {k} segments, {n=}; one of {', '.join(map(str, fit))}, or None.")
    return k, n // k - 1


def _sum(kept: int, again: int) -> str:
    """The units at the peak, term by term: "4 kept + 3 again + 2 of the node = 9"."""
    terms = [f"{kept} kept", *([f"{again} again"] if again else []), f"{_N_OF_NODE} of the node"]
    return f"{' + '.join(terms)} = {kept + again + _N_OF_NODE}"


def _draw(diagram: Diagram, y: float, n: int, k: int | None) -> None:
    kept, again = _units(n, k)
    length = 1 if k is None else n // k
    diagram.text(_LEFT, y, f"{_name(k)}, when forward ends: {kept} unit{'s' if kept > 1 else ''}")
    diagram.text(_LEFT, y + 54, f"at the peak: {_sum(kept, again)}")
    for i in range(n):
        is_kept, runs_again = i % length == 0, i >= n - again
        _tensor(diagram, i, y + 14, "kept" if is_kept else "")
        _tensor(diagram, i, y + 68, "kept" if is_kept else "again" if runs_again else "")
    for i in range(n, n + _N_OF_NODE):
        _tensor(diagram, i, y + 68, "node")


def _tensor(diagram: Diagram, place: int, y: float, what: str) -> None:
    _box(diagram, _LEFT + _STEP * place, y, what)


def _box(diagram: Diagram, x: float, y: float, what: str) -> None:
    lines = [_LETTERS[what]] if _LETTERS.get(what) else []
    diagram.box(x, y, _SIDE, _SIDE, *lines, colour=_COLOURS.get(what, ""), dashed=not what)


def _legend(diagram: Diagram, y: float) -> None:
    words = (("kept", "kept"), ("", "forgotten"), ("again", "computed again"), ("node", "of the node"))
    for x, (what, meaning) in zip((14, 82, 176, 322), words, strict=True):
        _box(diagram, x, y - _SIDE / 2, what)
        diagram.text(x + _SIDE + 6, y, meaning, size=13)

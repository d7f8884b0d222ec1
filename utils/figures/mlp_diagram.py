"""The MLP as diagrams: the tensors of its forward pass, which of them are kept, and what backward reads them for."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from every_byte.formula.formula import Formula, Term
from every_byte.units import short
from utils.formulas.mlp import mlp_saved, mlp_saved_dropout_inside

from .diagram import WIDTH, Box, Diagram

_NAMES = {"gelu": "GELU", "relu": "ReLU"}
_READERS = {"up": "W₁", "down": "W₂", "activation": "φ′"}  # by the module whose backward it is
_COLUMN, _ROW, _BOX = 184, 74, 46  # a column's width; from one tensor to the next; the height of a tensor's box
_MASK_TERM = "dropout mask"


class _Tensor(NamedTuple):
    """One tensor of a column: its letter, its multiple of bsd elements, the term that keeps it, what makes it."""

    letter: str
    width: int
    term: str
    step: str = ""


_PLAIN = (
    _Tensor("x", 1, "input"),
    _Tensor("h", 4, "activation input", "up"),
    _Tensor("g", 4, "down input", "φ"),
    _Tensor("y", 1, "", "down"),
)
_DROPOUT_LAST = (*_PLAIN, _Tensor("z", 1, "", "dropout"))
_DROPOUT_INSIDE = (
    *_PLAIN[:2],
    _Tensor("g", 4, "activation output", "φ"),
    _Tensor("g̃", 4, "down input", "dropout"),
    _PLAIN[3],
)


def mlp_guess(*, b: int, s: int, d: int, e: int) -> Diagram:
    """The four tensors of the forward pass in a row, with their bytes, but without a hint of what is kept.

    Unit: bytes of each tensor, rounded.
    """
    letters = {"b": b, "s": s, "d": d, "e": e}
    sizes = [f"{tensor.letter} {short(_bytes(tensor, letters))}" for tensor in _PLAIN]
    diagram = Diagram(f"The tensors of an MLP's forward pass: {', '.join(sizes)}.", 84)
    gap, x = 34, 1.0
    above: Box | None = None
    unit = (WIDTH - 2 - 3 * gap) / 10
    for tensor in _PLAIN:
        width = unit * (2 if tensor.width == 1 else 3)
        box = diagram.box(x, 24, width, 56, tensor.letter, short(_bytes(tensor, letters)), dashed=True)
        if above:
            diagram.arrow(above.right, box.left)
            diagram.text((above.right[0] + box.left[0]) / 2, 12, tensor.step, anchor="middle", size=13)
        x, above = x + width + gap, box
    return diagram


def mlp_tensors(activations: str | Sequence[str] = ("gelu", "relu"), **letters: int) -> Diagram:
    """A column for each activation: input, hidden tensors and output, filled if they are kept for backward.

    `activations` are one or two of "gelu" and "relu"; `letters` are b, s, d and e.

    Unit:   bytes of each tensor, rounded.
    Raises: ValueError for other activations.
    """
    names = (activations,) if isinstance(activations, str) else tuple(activations)
    _must_be_known(names)
    columns = {_NAMES[name]: (_PLAIN, mlp_saved(activation=name)) for name in names}
    return _columns("The tensors of an MLP, from x through h and g to y", columns, letters)


def dropout_places(activation: str = "relu", **letters: int) -> Diagram:
    """Two columns for one activation: dropout after `down`, and dropout between the activation and `down`.

    `letters` are b, s, d and e.

    Unit:   bytes of each tensor, rounded.
    Raises: ValueError for an activation that is not "gelu" or "relu".
    """
    _must_be_known((activation,))
    columns = {
        "dropout last": (_DROPOUT_LAST, mlp_saved(activation=activation, dropout=True)),
        "dropout after φ": (_DROPOUT_INSIDE, mlp_saved_dropout_inside(activation=activation)),
    }
    return _columns(f"The tensors of an MLP with {_NAMES[activation]} and dropout", columns, letters)


def _must_be_known(activations: tuple[str, ...]) -> None:
    if not activations or len(set(activations)) < len(activations) or set(activations) - _NAMES.keys():
        names = ", ".join(map(repr, activations)) or "none"
        known = " or ".join(map(repr, _NAMES))
        raise ValueError(f"activation must be {known}, a column each: got {names}; mlp_saved has the others' terms.")


def _columns(
    title: str, columns: Mapping[str, tuple[tuple[_Tensor, ...], Formula]], letters: Mapping[str, int]
) -> Diagram:
    said, n_rows = [], max(len(tensors) for tensors, _ in columns.values())
    for name, (tensors, formula) in columns.items():
        by_term = formula.by_term(**letters)
        kept = [tensor.letter for tensor in tensors if tensor.term in by_term] + ["m"] * (_MASK_TERM in by_term)
        said.append(f"{name}: {', '.join(kept)} are kept, {short(sum(by_term.values()))}")
    diagram = Diagram(f"{title}. {'; '.join(said)}.", 36 + _ROW * n_rows + 6)
    for number, (name, (tensors, formula)) in enumerate(columns.items()):
        x = 20 + 215 * number
        diagram.text(x + _COLUMN / 2, 18, name, anchor="middle")
        _column(diagram, x, tensors, formula, letters)
        total = f"kept: {short(formula.bytes(**letters))}"
        diagram.text(x + _COLUMN / 2, 36 + _ROW * n_rows - 10, total, anchor="middle")
    return diagram


def _column(
    diagram: Diagram, x: float, tensors: tuple[_Tensor, ...], formula: Formula, letters: Mapping[str, int]
) -> None:
    keeps = {term.name: term for term in formula.terms}
    above: Box | None = None
    for row, tensor in enumerate(tensors):
        otherwise = "freed" if row < len(tensors) - 1 else "output"
        is_kept, width = tensor.term in keeps, _COLUMN if tensor.width > 1 else 104
        box = diagram.box(
            *(x + (_COLUMN - width) / 2, 34 + _ROW * row, width, _BOX),
            f"{tensor.letter}  {short(_bytes(tensor, letters))}",
            f"kept for {_readers(keeps[tensor.term])}" if is_kept else otherwise,
            colour="activations" if is_kept else "",
            dashed=not is_kept,
        )
        if above:
            diagram.arrow(above.bottom, box.top)
            diagram.text(above.bottom[0] + 8, above.bottom[1] + 14, tensor.step, tone="faint", size=13)
        if tensor.step == "dropout":
            mask = f"m  {short(formula.by_term(**letters)[_MASK_TERM])}"
            diagram.box(x, box.y - 25, _COLUMN / 2 - 6, 22, mask, colour="activations")
        above = box


def _readers(term: Term) -> str:
    """What backward reads a tensor for, from the slots that its term names: the gradient of a weight, or the slope."""
    return " and ".join(dict.fromkeys(_READERS[selector.module] for selector in term.selectors))


def _bytes(tensor: _Tensor, letters: Mapping[str, int]) -> int:
    return tensor.width * letters["b"] * letters["s"] * letters["d"] * letters["e"]

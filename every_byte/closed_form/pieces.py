"""The form of one kind of rows in pieces: each with the conditions under which it was found to hold."""

from collections.abc import Sequence
from dataclasses import dataclass

from .conditions import Condition
from .forms import Form
from .kernels import KernelForm
from .polynomials import Point


@dataclass(frozen=True)
class Piece:
    """A form, and the conditions that must hold; `form` is None where none was found."""

    conditions: tuple[Condition, ...]
    form: Form | KernelForm | None

    def holds(self, point: Point) -> bool:
        """Whether the conditions do."""
        return all(condition(point) for condition in self.conditions)


@dataclass(frozen=True)
class Pieces:
    """Pieces of which one holds at each point."""

    pieces: tuple[Piece, ...]

    def form(self, point: Point) -> Form | KernelForm | None:
        """The form that holds at a point; None where none was found."""
        return next((piece.form for piece in self.pieces if piece.holds(point)), None)

    def value(self, point: Point) -> int | None:
        """Its value there; None where no form was found, or its value is no whole number."""
        form = self.form(point)
        if form is None:
            return None
        value = form.at(point)
        return int(value) if value.denominator == 1 else None

    def is_met(self, points: Sequence[Point], values: Sequence[int]) -> bool:
        """Whether it has these values at these points."""
        return all(self.value(point) == value for point, value in zip(points, values, strict=True))

    @property
    def is_unknown(self) -> bool:
        """Whether there is a piece without a form."""
        return any(piece.form is None for piece in self.pieces)

    @property
    def conditions(self) -> list[Condition]:
        """All that are asked for, each once, not negated."""
        found = [c.negated if c.is_negated else c for piece in self.pieces for c in piece.conditions]
        return list(dict.fromkeys(found))

"""A form of one kind of rows: a polynomial in letters, some of them rounded; and how one is found from values."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import torch

from .polynomials import Monomial, Point, Polynomial, candidates, monomial_value, system

MULTIPLES = (2, 4, 8, 16, 32, 64, 128, 256)
"""What sizes are rounded to multiples of, by kernels and by strides."""
NO_FORM_WITHOUT = 3
"""A form is believed if it was met at so many points more than it needed to be found."""
NEAR = 1e-9
"""Logarithms that differ by less may be those of equal numbers, which is then looked at exactly."""
N_BY_LOGARITHMS = 16
"""At so many points logarithms are looked at: of the last ones, which are of any sizes."""


@dataclass(frozen=True)
class Atom:
    """A letter, by its place in a point, or a sum of letters' products: as it is, or rounded to a multiple."""

    text: str
    place: int = -1
    inner: Polynomial | None = None
    multiple: int = 1
    is_down: bool = False

    def __call__(self, point: Point) -> int:
        """Its value at a point."""
        n = point[self.place] if self.inner is None else int(self.inner.at(point))
        if self.is_down:
            return n // self.multiple * self.multiple
        return -(-n // self.multiple) * self.multiple

    def __str__(self) -> str:
        if self.multiple == 1:
            return self.text if self.inner is None else f"({self.text})"
        inside = f"{self.text} - {self.multiple - 1}" if self.is_down else self.text
        return f"up({inside}, {self.multiple})"


@dataclass(frozen=True)
class Form:
    """Polynomials, each in atoms of its own: their sum."""

    parts: tuple[tuple[Polynomial, tuple[Atom, ...]], ...]

    def at(self, point: Point) -> Fraction:
        """Its value."""
        return sum((p.at([atom(point) for atom in atoms]) for p, atoms in self.parts), Fraction(0))

    def __add__(self, other: "Form") -> "Form":
        total: dict[tuple[Atom, ...], Polynomial] = {atoms: p for p, atoms in self.parts}
        for p, atoms in other.parts:
            total[atoms] = total[atoms] + p if atoms in total else p
        return Form(tuple((p, atoms) for atoms, p in total.items() if p.coefficients))

    def divided(self, n: int) -> "Form":
        """The same by a whole number."""
        return Form(tuple((p.divided(n), atoms) for p, atoms in self.parts))

    @property
    def is_whole(self) -> bool:
        """Whether all coefficients are whole numbers."""
        return all(p.is_whole for p, _ in self.parts)

    @property
    def is_zero(self) -> bool:
        """Whether nothing is left of it."""
        return not self.parts

    @property
    def text(self) -> str:
        """As `Expression` reads it."""
        return " + ".join(p.text([str(atom) for atom in atoms]) for p, atoms in self.parts) or "0"


def plain(polynomial: Polynomial, letters: Sequence[str]) -> Form:
    """A polynomial of letters as they are."""
    if not polynomial.coefficients:
        return Form(())
    return Form(((polynomial, atoms_of(letters)),))


def atoms_of(letters: Sequence[str]) -> tuple[Atom, ...]:
    """The letters as they are."""
    return tuple(Atom(letter, place) for place, letter in enumerate(letters))


def is_met(form: Form, points: Iterable[Point], values: Iterable[int]) -> bool:
    """Whether it has these values at these points."""
    return all(form.at(point) == value for point, value in zip(points, values, strict=True))


def rounded(form: Form, points: Sequence[Point], values: Sequence[int]) -> Form | None:
    """The same with one letter rounded, so that it has these values; None if none: in all of it, or in one monomial.

    There it may be in some of its factors alone: "s*up(s, 16)" of "s**2".
    """
    seen = sorted(zip(points, values, strict=True), key=lambda one: form.at(one[0]) == one[1])  # what is missed first
    for changed in _roundings(form, points):
        if all(changed.at(point) == value for point, value in seen):
            return changed
    return None


def _roundings(form: Form, points: Sequence[Point]) -> Iterator[Form]:
    if len(form.parts) != 1:
        return
    polynomial, atoms = form.parts[0]
    used = {i for monomial, _ in polynomial.coefficients for i, power in enumerate(monomial) if power}
    for i in sorted(used):
        for new in _rounded_atoms(atoms[i], points):
            yield Form(((polynomial, (*atoms[:i], new, *atoms[i + 1 :])),))
            for chosen, (monomial, c) in enumerate(polynomial.coefficients):
                rest = polynomial.coefficients[:chosen] + polynomial.coefficients[chosen + 1 :]
                kept = ((Polynomial(rest), atoms),) if rest else ()
                for n in range(1, monomial[i] + bool(rest)):
                    powers = (*monomial[:i], monomial[i] - n, *monomial[i + 1 :], n)
                    yield Form((*kept, _product(powers, (*atoms, new), c)))


def _rounded_atoms(atom: Atom, points: Sequence[Point]) -> Iterator[Atom]:
    """A letter or a size rounded up and down in every way that tells points apart: not to 0, or 256, at all of them."""
    for is_down, multiple in product((False, True), MULTIPLES):
        new = replace(atom, multiple=multiple, is_down=is_down)
        if len({new(point) for point in points}) > 1:
            yield new


def _product(powers: Monomial, atoms: Sequence[Atom], c: Fraction) -> tuple[Polynomial, tuple[Atom, ...]]:
    """A monomial with a coefficient as a part of a form: with those factors alone that it has."""
    used = [(power, atom) for power, atom in zip(powers, atoms, strict=True) if power]
    return Polynomial.of({tuple(power for power, _ in used): c}), tuple(atom for _, atom in used)


def guessed(
    letters: Sequence[str], points: Sequence[Point], values: Sequence[int], sizes: Sequence[Atom] = ()
) -> Form | None:
    """A form with these values at points in no order: one monomial, perhaps rounded, else a polynomial of low degree.

    `sizes` are sums that may stand in a monomial beside letters, rounded or not.
    """
    if len(points) < NO_FORM_WITHOUT + 1:
        return None
    if not any(values):
        return Form(())
    if all(values):
        for size in (None, *sizes):
            if (found := _one_monomial(letters, size, points, values)) is not None:
                return found
    return _low_degree(letters, points, values)


def _one_monomial(letters: Sequence[str], size: Atom | None, points: Sequence[Point], values: Any) -> Form | None:
    """One monomial of letters, in which a size takes part if there is one; and one of these rounded, beside itself."""
    atoms = (*atoms_of(letters), *([size] if size else []))
    all_powers = sorted(product(range(3), repeat=len(atoms)), key=sum)
    powers = [each for each in all_powers if size is None or each[-1]]
    table = [[atom(point) for atom in atoms] for point in points]
    if (found := _scaled(powers, table, values)) is not None:
        return _monomial(found, atoms, table[0], values[0])
    powers = [(*each, power) for each, power in product(all_powers, (1, 2))]
    for new in (new for atom in atoms for new in _rounded_atoms(atom, points)):
        wider = [[*row, new(point)] for row, point in zip(table, points, strict=True)]
        if (found := _scaled(powers, wider, values)) is not None:
            return _monomial(found, (*atoms, new), wider[0], values[0])
    return None


def _scaled(powers: Sequence[Monomial], table: Sequence[Sequence[int]], values: Sequence[int]) -> Monomial | None:
    """The first monomial of which values are all the same multiple: by logarithms, then exactly."""
    if not all(map(all, table)):  # a letter rounded down to 0 somewhere: no factor of what is never 0
        return None
    some, of_some = (torch.tensor(each[-N_BY_LOGARITHMS:], dtype=torch.float64) for each in (table, values))
    scales = of_some.abs().log() - _as_floats(tuple(powers)) @ some.log().T
    near = (scales.amax(1) - scales.amin(1) < NEAR).nonzero().flatten().tolist()
    return next((powers[i] for i in near if _is_scaled(powers[i], table, values)), None)


@lru_cache(maxsize=64)
def _as_floats(powers: tuple[Monomial, ...]) -> torch.Tensor:
    return torch.tensor(powers, dtype=torch.float64)


def _monomial(powers: Monomial, atoms: tuple[Atom, ...], first: Sequence[int], value: int) -> Form:
    """A monomial with this value where its factors are the first ones."""
    return Form((_product(powers, atoms, Fraction(value, monomial_value(powers, first))),))


def _is_scaled(powers: Monomial, table: Sequence[Sequence[int]], values: Sequence[int]) -> bool:
    """Whether values are all the same multiple of a monomial's."""
    of_first = monomial_value(powers, table[0])
    return of_first != 0 and all(
        value * of_first == values[0] * monomial_value(powers, row) for row, value in zip(table, values, strict=True)
    )


def _low_degree(letters: Sequence[str], points: Sequence[Point], values: Any) -> Form | None:
    n = len(letters)
    together = [frozenset((i, j)) for i in range(n) for j in range(i)]
    for most in (1, 2):
        monomials = [m for m in candidates([most] * n, together) if sum(m) <= 3]
        if len(points) < len(monomials) + NO_FORM_WITHOUT:
            return None
        solved = system(tuple(monomials), tuple(points))
        if solved.is_determined:
            form = plain(solved.solved(values), letters)
            if is_met(form, points, values):
                return form
    return None

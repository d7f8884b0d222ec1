"""Curves that an explorer draws for its choices: what one is made of, and which settings have which."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from .controls import Control
from .settings import combinations

MOST_POINTS = 200  # of one curve: a page gets the curves of all choices at once
DIGITS = 4  # significant ones: a hundredth of a pixel


@dataclass(frozen=True)
class Curve:
    """One line plot: its words, and its points as pieces, each (list of x, list of y), with nothing drawn between them.

    A piece of one point is drawn as a dot. `mark` is two points joined by a dashed line, such as two inputs of one
    output: the first a full circle, the second an empty one. `caption` is one sentence; it stands in for the plot where
    there is no page.

    Counts: MOST_POINTS points at most; `pieces` makes them of a dense curve. A page gets DIGITS digits.
    Raises: ValueError for no points, too many, or such as are no finite numbers, and for a mark that is not of two.
    """

    title: str
    x_label: str
    y_label: str
    points: Sequence[tuple[Sequence[float], Sequence[float]]]
    mark: tuple[tuple[float, float], tuple[float, float]] | None = None
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.points or not all(len(xs) == len(ys) > 0 for xs, ys in self.points):
            raise ValueError(
                "points must hold pieces, each as many x as y: got "
                f"{[(len(xs), len(ys)) for xs, ys in self.points]} of them in {self.title!r}."
            )
        n_points = sum(len(xs) for xs, _ in self.points)
        if n_points > MOST_POINTS:
            raise ValueError(
                f"a curve has at most {MOST_POINTS} points: got {n_points} in {self.title!r}; pass points=pieces(x, y)."
            )
        if self.mark is not None and [len(point) for point in self.mark] != [2, 2]:
            raise ValueError(f"mark must be two points ((x, y), (x, y)): got {self.mark!r} in {self.title!r}.")
        numbers = [number for piece in (*self.points, *(self.mark or ())) for number in _flat(piece)]
        if wrong := [number for number in numbers if not math.isfinite(number)]:
            raise ValueError(f"points must be finite: got {wrong[0]} in {self.title!r}; end the piece before it.")

    def spec(self) -> dict[str, Any]:
        """What a page needs to draw it."""
        return {
            "title": self.title, "x_label": self.x_label, "y_label": self.y_label, "caption": self.caption,
            "pieces": [[[_rounded(x) for x in numbers] for numbers in piece] for piece in self.points],
            "mark": self.mark and [[_rounded(x) for x in point] for point in self.mark],
        }  # fmt: skip


def _flat(piece: Iterable[float | Sequence[float]]) -> list[float]:
    return [number for part in piece for number in (part if isinstance(part, Sequence) else [part])]


def _rounded(number: float) -> float:
    return float(f"{float(number):.{DIGITS}g}")


def curves_by_choice(
    curves: Callable[[dict[str, Any]], Sequence[Curve]] | None,
    of: Sequence[str] | None,
    controls: Mapping[str, Control],
) -> list[dict[str, Any]]:
    """[{when, curves}] for a page: what `curves` gives for each combination of the choices named by `of`, or of all.

    `curves` is called with the settings of these choices alone, so that it cannot depend on another unnoticed.

    Raises: ValueError for a name that is no choice, and for `of` without `curves`; TypeError for what is no Curve.
    """
    known = [symbol for symbol, control in controls.items() if control.options is not None]
    if of is not None and curves is None:
        raise ValueError(
            f"curves_of belongs to curves: got curves_of={tuple(of)!r} alone; pass curves=function as well."
        )
    if isinstance(of, str):
        raise ValueError(f"curves_of must be a sequence of names: got {of!r}; write curves_of=({of!r},).")
    for symbol in of or ():
        if symbol not in known:
            raise ValueError(
                f"curves_of must name choices that are no letter: got {symbol!r}; there are {', '.join(known)}."
            )
    if curves is None:
        return []
    chosen_by = [controls[symbol] for symbol in (known if of is None else of)]
    entries = []
    for chosen in combinations(chosen_by):
        when = {symbol: controls[symbol].to_page(setting) for symbol, setting in chosen.items()}
        entries.append({"when": when, "curves": [curve.spec() for curve in _checked(curves(chosen), when)]})
    return entries


def _checked(returned: object, when: Mapping[str, int | str]) -> list[Curve]:
    curves = []
    for curve in returned if isinstance(returned, Sequence) else [returned]:
        if not isinstance(returned, Sequence) or not isinstance(curve, Curve):
            setting = ", ".join(f"{symbol}={name}" for symbol, name in when.items())
            raise TypeError(f"curves must return a list of Curve: got {type(curve).__name__} for {setting}.")
        curves.append(curve)
    return curves


def captions_at(spec: list[dict[str, Any]], settings_of_page: Mapping[str, int | str]) -> str:
    """The curves of a setting as HTML, in words alone: a paragraph for each title and caption."""
    curves = [curve for entry in spec if entry["when"].items() <= settings_of_page.items() for curve in entry["curves"]]
    captions = [f"{curve['title']}: {curve['caption']}" for curve in curves if curve["caption"]]
    return "".join(f"<p>{escape(caption)}</p>" for caption in captions)

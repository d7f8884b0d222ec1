"""Diagrams as vector pictures: boxes, arrows and words, in the book's colours, on light pages, dark ones and paper."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape

from every_byte.palette import Colour, colour_of

WIDTH = 440
"""Units across, of which a telephone shows each as three quarters of a pixel: text of 14 can still be read there."""

_LIGHT = {"ink": colour_of("ink").light, "on": "#fff", "faint": "#6b7280", "paper": "#fff"}
_DARK = {"ink": "#dde2e7", "on": "#000", "faint": "#a6b0ba", "paper": "none"}
_LINE = 17  # from one line of text to the next
_ROUND = 5
_HEAD = 7  # an arrow's


@dataclass(frozen=True)
class Box:
    """Where a box lies, so that arrows can begin and end at it."""

    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> tuple[float, float]:
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> tuple[float, float]:
        return self.x + self.width, self.y + self.height / 2

    @property
    def top(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y

    @property
    def bottom(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height


@dataclass
class Diagram:
    """A picture that shows itself in a notebook; `alt` says what it shows to those who do not see it.

    Colours are those of categories, of the palette's names, or "" for an outline alone.
    """

    alt: str
    height: float
    width: float = WIDTH
    _parts: list[str] = field(default_factory=list, init=False, repr=False)
    _colours: dict[str, Colour] = field(default_factory=dict, init=False, repr=False)

    def box(
        self, x: float, y: float, width: float, height: float, *lines: str, colour: str = "", dashed: bool = False
    ) -> Box:
        """A box with lines of text in its middle: filled with a colour, or an outline, which may be dashed.

        Raises: ValueError for a colour that does not exist.
        """
        style = 'class="eb-d-box"' + (' stroke-dasharray="5 4"' if dashed else "")
        if colour:
            style = f'class="{self._fill(colour)}"'
        self._parts.append(f'<rect {style} x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{_ROUND}"/>')
        first = y + height / 2 - _LINE * (len(lines) - 1) / 2
        for number, line in enumerate(lines):
            self.text(x + width / 2, first + _LINE * number, line, anchor="middle", tone="on" if colour else "ink")
        return Box(x, y, width, height)

    def text(
        self, x: float, y: float, words: str, *, anchor: str = "start", size: float = 14, tone: str = "ink"
    ) -> None:
        """Words with their middle at this height; `tone` is "ink", "faint" for what is said aside, or "on" a colour."""
        place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size:g}"'
        self._parts.append(f'<text class="eb-d-{tone}" {place} dominant-baseline="central">{escape(words)}</text>')

    def arrow(self, *points: tuple[float, float], dashed: bool = False, head: bool = True) -> None:
        """A line from point to point, with a head at the last."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(f'<polyline class="eb-d-line" points="{path}"{dashes}/>')
        if head:
            (x0, y0), (x, y) = points[-2:]
            length = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5
            dx, dy = _HEAD * (x - x0) / length, _HEAD * (y - y0) / length
            corners = f"{x:g},{y:g} {x - dx - dy / 2:g},{y - dy + dx / 2:g} {x - dx + dy / 2:g},{y - dy - dx / 2:g}"
            self._parts.append(f'<polygon class="eb-d-ink" points="{corners}"/>')

    def area(self, points: Iterable[tuple[float, float]], colour: str) -> None:
        """What is inside an outline, filled with a colour.

        Raises: ValueError for a colour that does not exist.
        """
        outline = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._parts.append(f'<polygon class="{self._fill(colour)}" points="{outline}"/>')

    def _fill(self, name: str) -> str:
        colour = colour_of(name)
        self._colours[f"fill-{colour.name}"] = colour  # "ink" is a colour, and the tone of text too
        return f"eb-d-fill-{colour.name}"

    def svg(self) -> str:
        """The picture as SVG, with colours for light pages and, where a page says that it is dark, for dark ones."""
        light = _LIGHT | {name: colour.light for name, colour in sorted(self._colours.items())}
        dark = _DARK | {name: colour.dark for name, colour in sorted(self._colours.items())}
        rules = "".join(f".eb-d-{name}{{fill:{tone}}}" for name, tone in light.items())
        rules += f".eb-d-box,.eb-d-line{{fill:none;stroke:{light['ink']};stroke-width:1.2}}"
        night = "".join(f"[data-theme=dark] .eb-d-{name}{{fill:{tone}}}" for name, tone in dark.items())
        night += f"[data-theme=dark] :is(.eb-d-box,.eb-d-line){{stroke:{dark['ink']}}}"
        font = "font-family=\"'Source Sans 3',system-ui,sans-serif\""
        return (
            f'<svg class="eb-diagram" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" '
            f'width="{self.width:g}" role="img" aria-label="{escape(self.alt)}" {font}>'
            f"<style>{rules}@media screen{{{night}}}</style>"
            f'<rect class="eb-d-paper" width="100%" height="100%"/>{"".join(self._parts)}</svg>'
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"image/svg+xml": self.svg(), "text/plain": self.alt}

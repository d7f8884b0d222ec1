"""The whole card as one bar, drawn without a script: what is in use by category, what is reserved, what is left."""

from typing import Any

from every_byte.palette import colour_of
from every_byte.units import short

from .markup import Html, element, joined

WIDTH, HEIGHT = 1000, 34
_SMALL = 10
_LEAST = 1  # of WIDTH: what is smaller is not drawn, and is in the legend


def picture_of(card: dict[str, Any]) -> Html:
    """The bar and its legend; `card` is as in `drawn.py`. The text says all that the bar shows.

    Unit: the bar is as long as the room for segments, or as what is needed where that is more; where a tenth of the
          room would hold all, it is as long as what is reserved, and the legend says so.
    """
    taken = card["reserved"] + card["asked"]
    most = max(taken if _is_small(card) else max(card["room"], taken), 1)
    at, parts = 0, []
    for name, n_bytes in card["parts"].items():
        parts.append(_piece(at, n_bytes, most, f"{name}: {short(n_bytes)}", style=_tones(name)))
        at += n_bytes
    cached = _piece(at, card["reserved"] - at, most, "reserved beyond", class_="eb-cached")
    room = _piece(0, min(card["room"], most), most, "room", class_="eb-room")
    svg = element(
        "svg", *filter(None, [*parts, cached, room]), viewBox=f"0 0 {WIDTH} {HEIGHT}", preserveAspectRatio="none",
        role="img", aria_label=_in_words(card),
    )  # fmt: skip
    return joined((svg, _legend(card)))


def _is_small(card: dict[str, Any]) -> bool:
    return bool(card["reserved"] * _SMALL < card["room"])


def _piece(at: int, n_bytes: int, most: int, title: str, **attributes: object) -> Html:
    width = WIDTH * n_bytes / most
    if width < _LEAST:
        return Html("")
    box = {"x": f"{WIDTH * at / most:.1f}", "width": f"{width:.1f}", "y": 1, "height": HEIGHT - 2}
    return element("rect", element("title", title), **box, **attributes)


def _tones(name: str) -> str:
    colour = colour_of(name)
    return f"--light:{colour.light};--dark:{colour.dark}"


def _legend(card: dict[str, Any]) -> Html:
    items = [
        element("li", element("i", style=_tones(name)), f"{name} {short(n_bytes)}")
        for name, n_bytes in card["parts"].items()
    ]
    used = sum(card["parts"].values())
    rest = [f"reserved beyond {short(card['reserved'] - used)}"] if card["reserved"] > used else []
    free = f"free {short(card['room'] - card['reserved'])}{', not drawn' if _is_small(card) else ''}"
    left = [free] if card["room"] > card["reserved"] else []
    asked = [f"asked for {short(card['asked'])}"] if card["asked"] else []
    return element("ul", *items, *(element("li", words) for words in [*rest, *left, *asked]), class_="eb-legend")


def _in_words(card: dict[str, Any]) -> str:
    parts = ", ".join(f"{name} {short(n_bytes)}" for name, n_bytes in card["parts"].items())
    return f"{parts}; {short(card['reserved'])} reserved of {short(card['room'])}"

"""What a diagram says and draws, read from its SVG."""

import xml.etree.ElementTree as ElementTree

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

SVG = "{http://www.w3.org/2000/svg}"
WIDE = FontProperties("DejaVu Sans")
"""As wide as a reader's font may be: a page without the book's own takes the system's."""
MARGIN = 3
"""What a browser may set a line wider than this does."""


def words(diagram) -> list[str]:
    """Its texts, in the order in which they are drawn."""
    return [text.text for text in ElementTree.fromstring(diagram.svg()).iter(f"{SVG}text")]


def too_wide(diagram) -> list[str]:
    """What leaves the picture, and each text that is wider than the box on which it lies."""
    said, boxes = [], []
    _, *shapes = ElementTree.fromstring(diagram.svg()).iter()
    for shape in shapes:
        if shape.get("class") == "eb-d-paper" or shape.tag not in (f"{SVG}rect", f"{SVG}text"):
            continue
        x, y = float(shape.get("x")), float(shape.get("y"))
        if shape.tag == f"{SVG}rect":
            width, height = float(shape.get("width")), float(shape.get("height"))
            boxes.append((x, y, x + width, y + height))
            left, top, right, bottom = boxes[-1]
            is_in = 0 <= left < right <= diagram.width and 0 <= top < bottom <= diagram.height
            said += [] if is_in else [f"a box at {boxes[-1]}"]
            continue
        text = TextPath((0, 0), shape.text, size=float(shape.get("font-size")), prop=WIDE)
        across = text.get_extents().width + MARGIN
        left = x - across * {"start": 0, "middle": 0.5, "end": 1}[shape.get("text-anchor")]
        around = [box for box in boxes if box[0] <= x <= box[2] and box[1] <= y <= box[3]]
        first, last = (around[-1][0], around[-1][2]) if around else (0, diagram.width)
        said += [] if first <= left and left + across <= last and 0 < y < diagram.height else [shape.text]
    return said

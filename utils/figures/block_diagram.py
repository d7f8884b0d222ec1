"""A transformer block as a diagram: each tensor of its forward pass at its place, kept for backward or freed."""

from collections.abc import Sequence

from every_byte.units import short

from .block_items import ASIDE, PLUS, TENSOR, Column, Item, Note, Outside, Step, Tensor, height_of
from .diagram import WIDTH, Diagram

_TOP = 40
_LANE, _FLOW = 14, 20  # from a column's left edge to its boxes, where x goes round; from there to the arrows
_NARROWEST = 132
_LETTER = 7.3  # across, of text of 14, in the widest of the fonts


def block_tensors(
    *,
    attention: str | Sequence[str] = ("explicit", "flash"),
    activation: str = "gelu",
    autocast: bool = False,
    dropout: bool = False,
    from_output: bool = False,
    half: str = "bfloat16",
    **letters: int,
) -> Diagram:
    """A column for each attention, from x to y: a tensor that is kept for backward is filled, one that is freed dashed.

    `attention` is one or two of utils.formulas.block.ATTENTIONS; `activation`, `autocast`, `dropout` and `from_output`
    are those of `block_saved`, and so are the letters: b, s, d, a and e. `half` names the type of 2 bytes.

    Counts: as `block_saved`: neither parameters, nor autocast's copies of them, nor y.
    Unit:   bytes of each tensor, rounded.
    Raises: ValueError for none or more than two of them, and for an e that is not 2 or 4; as `block_saved`.
    """
    names = (attention,) if isinstance(attention, str) else tuple(attention)
    if len(names) not in (1, 2):
        raise ValueError(f"attention must be one or two, a column each: got {names}; draw the others by themselves.")
    if letters.get("e", 2) not in (2, 4):
        raise ValueError(f"e must be 2 or 4, the bytes of a type: got e={letters['e']}.")
    how = {"activation": activation, "autocast": autocast, "dropout": dropout, "from_output": from_output}
    columns = [Column(name, how, half, letters) for name in names]
    largest_bytes = max(tensor.n_bytes for column in columns for tensor in column.tensors)
    core_height = max(height_of(column.core) for column in columns)
    ends = [column.before + column.after for column in columns]
    height = _TOP + core_height + max(map(height_of, ends)) + 34
    said = " ".join(column.said for column in columns)
    diagram = Diagram(f"The tensors of a transformer block from x to y, kept for backward or freed. {said}", height)
    width = 212 if len(columns) > 1 else 300
    left = (WIDTH - (width * len(columns) + 12 * (len(columns) - 1))) / 2
    for number, column in enumerate(columns):
        _Drawn(diagram, left + number * (width + 12), width, column, largest_bytes).draw(core_height, height)
    return diagram


class _Drawn:
    """A column on a diagram: its items from top to bottom."""

    def __init__(self, diagram: Diagram, left: float, width: float, column: Column, largest_bytes: int) -> None:
        self.diagram, self.left, self.width, self.column = diagram, left + _LANE, width - _LANE, column
        self.largest_bytes = largest_bytes
        self.y, self.stream_y = float(_TOP), 0.0

    def draw(self, core_height: float, height: float) -> None:
        column, middle = self.column, self.left + self.width / 2
        self.diagram.text(middle, 18, f"{column.attention} attention", anchor="middle")
        for item in column.before:
            self._item(item)
        spare = core_height - height_of(column.core)
        stretched = next((item for item in column.core if isinstance(item, Note)), column.core[-1])
        for item in column.core:
            self._item(item, spare if item is stretched else 0)
        for item in column.after:
            self._item(item)
        self.diagram.text(middle, height - 14, f"kept: {short(column.kept_bytes)}", anchor="middle")

    def _item(self, item: Item, spare: float = 0) -> None:
        if isinstance(item, Tensor):
            self._tensor(item)
        elif isinstance(item, Note):
            box = self.diagram.box(self.left, self.y, self.width, item.height + spare, *item.lines, dashed=True)
            self.y += box.height
        else:
            self._step(item, spare)

    def _tensor(self, tensor: Tensor) -> None:
        share = tensor.n_bytes / self.largest_bytes
        width = _NARROWEST + (self.width - _NARROWEST) * share**0.5
        width = min(self.width, max(width, self._across(tensor)))
        is_outside = isinstance(tensor, Outside)
        colour = "activations" if tensor.is_kept and not is_outside else ""
        lines = tensor.name, tensor.said
        self.diagram.box(self.left, self.y, width, TENSOR, *lines, colour=colour, dashed=not tensor.is_kept)
        if tensor.name in ("x", "x + attention"):
            self.stream_y = self.y + TENSOR / 2
        self.y += TENSOR

    def _across(self, tensor: Tensor) -> float:
        return _LETTER * max(len(tensor.name), len(tensor.said)) + 14

    def _step(self, step: Step, spare: float = 0) -> None:
        x, end = self.left + _FLOW, self.y + step.height + spare
        if step.name == "+":
            top = self.y + 8
            box = self.diagram.box(x - PLUS / 2, top, PLUS, PLUS, "+")
            self.diagram.arrow((x, self.y), box.top, head=False)
            self.diagram.arrow(box.bottom, (x, end))
            lane = self.left - _LANE + 4
            self.diagram.arrow((self.left, self.stream_y), (lane, self.stream_y), (lane, box.left[1]), box.left)
        else:
            self.diagram.arrow((x, self.y), (x, end))
            lines = step.name.split(", ") if step.kept else [step.name]
            for number, line in enumerate(lines if step.name else []):
                height = (self.y + end) / 2 - 2 + 16 * (number - (len(lines) - 1) / 2)
                self.diagram.text(x + 9, height, line, tone="faint", size=13)
        for number, tensor in enumerate(step.kept):
            width = self._across(tensor)
            place = self.left + self.width - width, self.y + 5 + ASIDE * number, width, ASIDE - 2
            self.diagram.box(*place, tensor.name, tensor.said, colour="activations")
        self.y = end

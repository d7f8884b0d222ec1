"""A transformer block as a diagram: each tensor of its forward pass at its place, kept for backward or freed."""

from dataclasses import dataclass

from every_byte.formula.formula import Formula
from every_byte.units import short
from utils.formulas.block import block_parts

from .diagram import WIDTH, Diagram

_TOP, _TENSOR, _GAP, _ASIDE, _PLUS = 40, 40, 26, 38, 20  # heights: the title, a tensor, an arrow, a box beside one, a +
_LANE, _FLOW = 14, 20  # from a column's left edge to its boxes, where x goes round; from there to the arrows
_NARROWEST = 132
_LETTER = 7.3  # across, of text of 14, in the widest of the fonts


@dataclass(frozen=True)
class _Tensor:
    """A tensor with its bytes and type, kept for backward or freed."""

    name: str
    n_bytes: int
    dtype: str
    is_kept: bool = True

    @property
    def said(self) -> str:
        return f"{short(self.n_bytes)} {self.dtype}".strip() + ("" if self.is_kept else ", freed")


class _Outside(_Tensor):
    """A tensor that outlives the block, and is no part of its account."""


@dataclass(frozen=True)
class _Step:
    """An operation between two tensors, with what it keeps beside them; "+" takes what goes round the sub-layer."""

    name: str
    kept: tuple[_Tensor, ...] = ()

    @property
    def height(self) -> float:
        return _PLUS + _GAP if self.name == "+" else max(_GAP, _ASIDE * len(self.kept) + 10)


@dataclass(frozen=True)
class _Note:
    """What happens where no tensor is stored."""

    lines: tuple[str, ...]
    height: float = 110


_TILES = (
    "the rows in tiles, which",
    "never leave the chip's own",
    "memory: nothing of s × s",
    "is stored; in backward the",
    "weights are made again,",
    "with logsumexp",
)


def block_tensors(
    *,
    attention=("explicit", "flash"),
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
    columns = [_Column(name, how, half, letters) for name in names]
    largest_bytes = max(tensor.n_bytes for column in columns for tensor in column.tensors)
    core_height = max(_height(column.core) for column in columns)
    ends = [column.before + column.after for column in columns]
    height = _TOP + core_height + max(map(_height, ends)) + 34
    said = " ".join(column.said for column in columns)
    diagram = Diagram(f"The tensors of a transformer block from x to y, kept for backward or freed. {said}", height)
    width = 212 if len(columns) > 1 else 300
    left = (WIDTH - (width * len(columns) + 12 * (len(columns) - 1))) / 2
    for number, column in enumerate(columns):
        _Drawn(diagram, left + number * (width + 12), width, column, largest_bytes).draw(core_height, height)
    return diagram


def _height(items: list) -> float:
    return sum(_TENSOR if isinstance(item, _Tensor) else item.height for item in items)


class _Column:
    """What is drawn for one attention: items before the core of attention, of the core, and behind it."""

    def __init__(self, attention: str, how: dict, half: str, letters: dict[str, int]):
        self.attention, self.half, self.autocast, self.dropout = attention, half, how["autocast"], how["dropout"]
        self.letters, self.parts = letters, block_parts(attention=attention, **how)
        self.terms = {part: formula.by_term(**letters) for part, formula in self.parts.items()}
        self.kept_bytes = sum(sum(terms.values()) for terms in self.terms.values())
        self.bsd = letters["b"] * letters["s"] * letters["d"]
        self.e, self.stream_bytes = letters["e"], 4 if self.autocast else letters["e"]
        self.before = [*self._norm("norm1", "x"), *self._into("attention"), _Step("qkv"), self._kept("q, k, v")]
        self.core = self._explicit() if attention == "explicit" else self._kernel()
        self.after = [self._kept("output", "heads' output"), _Step(*self._dropped("out")), self._freed("out's result")]
        self.after += [_Step("+"), *self._norm("norm2", "x + attention"), *self._into("mlp"), _Step("up")]
        self.after += [*self._activation(), _Step(*self._dropped("down")), self._freed("down's result")]
        y = "y, the next block's x", self.bsd * self.stream_bytes, self._type(self.stream_bytes)
        self.after += [_Step("+"), _Outside(*y)]
        assert sum(tensor.n_bytes for tensor in self.tensors if tensor.is_kept) == self.kept_bytes, "each term once"

    @property
    def tensors(self) -> list[_Tensor]:
        items = [*self.before, *self.core, *self.after]
        beside = [item.kept if isinstance(item, _Step) else (item,) for item in items]
        return [tensor for some in beside for tensor in some if type(tensor) is _Tensor]

    @property
    def said(self) -> str:
        named = [(one.is_kept, f"{one.name}: {short(one.n_bytes)} {one.dtype}".strip()) for one in self.tensors]
        kept, freed = ("; ".join(text for is_kept, text in named if is_kept is which) for which in (True, False))
        return f"With {self.attention} attention {short(self.kept_bytes)} are kept ({kept}), and freed are {freed}."

    def _type(self, element_bytes: int | str) -> str:
        each = self.e if element_bytes == "e" else element_bytes
        return {1: "bool", 2: self.half, 4: "float32"}[each]

    def _kept(self, term: str, name: str = "", part: str = "attention") -> _Tensor:
        formula: Formula = self.parts[part]
        found = next(one for one in formula.terms if one.name == term)
        dtype = "" if term == "random state" else self._type(found.element_bytes)
        return _Tensor(name or term, self.terms[part][term], dtype)

    def _freed(self, name: str, elements: int = 0, element_bytes: int = 0) -> _Tensor:
        each = element_bytes or self.e
        return _Tensor(name, (elements or self.bsd) * each, self._type(each), is_kept=False)

    def _norm(self, part: str, name: str) -> list:
        return [self._kept("input", name, part), _Step(part, (self._kept("statistics", part=part),))]

    def _into(self, part: str) -> list:
        """The input of a sub-layer's first Linear: under autocast, a copy of what the norm made in float32."""
        name = f"{'norm1' if part == 'attention' else 'norm2'}'s result"
        if not self.autocast:
            return [self._kept("input", name, part)]
        return [self._freed(name, self.bsd, 4), _Step("cast"), self._kept("input", f"{name}, cast", part)]

    def _explicit(self) -> list:
        a, b, s = (self.letters[letter] for letter in "abs")
        steps = [_Step("q kᵀ, scaled"), self._freed("scores [a, b, s, s]", a * b * s * s)]
        steps += [_Step("mask, softmax", (self._kept("causal mask"),)), self._kept("weights", "weights [a, b, s, s]")]
        if self.dropout:
            mask_bytes = self.terms["attention"]["dropout mask"] - self.bsd
            steps += [_Step("dropout", (_Tensor("weights' mask", mask_bytes, "bool"),)), self._kept("dropped weights")]
        elif self.autocast:
            steps += [_Step("cast"), self._kept("weights, in half precision", "weights, cast")]
        return [*steps, _Step("times v")]

    def _kernel(self) -> list:
        kept = self._kept("logsumexp", "logsumexp [a, b, s]"), self._kept("random state")
        return [_Step(f"{self.attention} attention"), _Note(_TILES), _Step("", kept)]

    def _dropped(self, step: str) -> tuple:
        if not self.dropout:
            return (step,)
        return f"{step}, dropout", (_Tensor("dropout mask", self.bsd, "bool"),)

    def _activation(self) -> list:
        """From the first Linear's result to what the second keeps."""
        rest = dict(self.terms["mlp"])
        has_input = "activation input" in rest
        h = self._kept("activation input", "h", "mlp") if has_input else self._freed("h", 4 * self.bsd)
        known = {"input", "activation input", "down input", "dropout mask"}
        beside = tuple(self._kept(term, part="mlp") for term in rest if term not in known)
        return [h, _Step("φ", beside), self._kept("down input", "g", "mlp")]


class _Drawn:
    """A column on a diagram: its items from top to bottom."""

    def __init__(self, diagram: Diagram, left: float, width: float, column: _Column, largest_bytes: int):
        self.diagram, self.left, self.width, self.column = diagram, left + _LANE, width - _LANE, column
        self.largest_bytes = largest_bytes
        self.y, self.stream_y = float(_TOP), 0.0

    def draw(self, core_height: float, height: float) -> None:
        column, middle = self.column, self.left + self.width / 2
        self.diagram.text(middle, 18, f"{column.attention} attention", anchor="middle")
        for item in column.before:
            self._item(item)
        spare = core_height - _height(column.core)
        stretched = next((item for item in column.core if isinstance(item, _Note)), column.core[-1])
        for item in column.core:
            self._item(item, spare if item is stretched else 0)
        for item in column.after:
            self._item(item)
        self.diagram.text(middle, height - 14, f"kept: {short(column.kept_bytes)}", anchor="middle")

    def _item(self, item, spare: float = 0) -> None:
        if isinstance(item, _Tensor):
            self._tensor(item)
        elif isinstance(item, _Note):
            box = self.diagram.box(self.left, self.y, self.width, item.height + spare, *item.lines, dashed=True)
            self.y += box.height
        else:
            self._step(item, spare)

    def _tensor(self, tensor: _Tensor) -> None:
        share = tensor.n_bytes / self.largest_bytes
        width = _NARROWEST + (self.width - _NARROWEST) * share**0.5
        width = min(self.width, max(width, self._across(tensor)))
        is_outside = isinstance(tensor, _Outside)
        colour = "activations" if tensor.is_kept and not is_outside else ""
        look = {"colour": colour, "dashed": not tensor.is_kept}
        self.diagram.box(self.left, self.y, width, _TENSOR, tensor.name, tensor.said, **look)
        if tensor.name in ("x", "x + attention"):
            self.stream_y = self.y + _TENSOR / 2
        self.y += _TENSOR

    def _across(self, tensor: _Tensor) -> float:
        return _LETTER * max(len(tensor.name), len(tensor.said)) + 14

    def _step(self, step: _Step, spare: float = 0) -> None:
        x, end = self.left + _FLOW, self.y + step.height + spare
        if step.name == "+":
            top = self.y + 8
            box = self.diagram.box(x - _PLUS / 2, top, _PLUS, _PLUS, "+")
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
            place = self.left + self.width - width, self.y + 5 + _ASIDE * number, width, _ASIDE - 2
            self.diagram.box(*place, tensor.name, tensor.said, colour="activations")
        self.y = end

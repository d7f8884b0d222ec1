"""What is drawn of a transformer block, from x to y: its tensors, the steps between them, what each step keeps."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from every_byte.formula.formula import Formula
from every_byte.units import short
from utils.formulas.block import block_parts

TENSOR, GAP, ASIDE, PLUS = 40, 26, 38, 20  # heights: a tensor, an arrow, a box beside one, a +


@dataclass(frozen=True)
class Tensor:
    """A tensor with its bytes and type, kept for backward or freed."""

    name: str
    n_bytes: int
    dtype: str
    is_kept: bool = True

    @property
    def said(self) -> str:
        return f"{short(self.n_bytes)} {self.dtype}".strip() + ("" if self.is_kept else ", freed")


class Outside(Tensor):
    """A tensor that outlives the block, and is no part of its account."""


@dataclass(frozen=True)
class Step:
    """An operation between two tensors, with what it keeps beside them; "+" takes what goes round the sub-layer."""

    name: str
    kept: tuple[Tensor, ...] = ()

    @property
    def height(self) -> float:
        return PLUS + GAP if self.name == "+" else max(GAP, ASIDE * len(self.kept) + 10)


@dataclass(frozen=True)
class Note:
    """What happens where no tensor is stored."""

    lines: tuple[str, ...]
    height: float = 110


Item: TypeAlias = Tensor | Step | Note


_TILES = (
    "the rows in tiles that",
    "never leave the chip's own",
    "memory: nothing of s × s",
    "is stored, and backward",
    "recomputes the weights",
    "from logsumexp",
)


class Column:
    """What is drawn for one attention: items before the core of attention, of the core, and behind it."""

    def __init__(self, attention: str, how: dict[str, Any], half: str, letters: dict[str, int]) -> None:
        self.attention, self.half, self.autocast, self.dropout = attention, half, how["autocast"], how["dropout"]
        self.letters, self.parts = letters, block_parts(attention=attention, **how)
        self.terms = {part: formula.by_term(**letters) for part, formula in self.parts.items()}
        self.kept_bytes = sum(sum(terms.values()) for terms in self.terms.values())
        self.bsd = letters["b"] * letters["s"] * letters["d"]
        self.e, self.stream_bytes = letters["e"], 4 if self.autocast else letters["e"]
        self.before: list[Item] = [
            *self._norm("norm1", "x"),
            *self._into("attention"),
            Step("qkv"),
            self._kept("q, k, v"),
        ]
        self.core = self._explicit() if attention == "explicit" else self._kernel()
        self.after: list[Item] = [self._kept("output", "heads' output"), self._dropped("out")]
        self.after += [self._freed("out's result")]
        self.after += [Step("+"), *self._norm("norm2", "x + attention"), *self._into("mlp"), Step("up")]
        self.after += [*self._activation(), self._dropped("down"), self._freed("down's result")]
        y = "y, the next block's x", self.bsd * self.stream_bytes, self._type(self.stream_bytes)
        self.after += [Step("+"), Outside(*y)]
        assert sum(tensor.n_bytes for tensor in self.tensors if tensor.is_kept) == self.kept_bytes, "each term once"

    @property
    def tensors(self) -> list[Tensor]:
        items = [*self.before, *self.core, *self.after]
        drawn: list[Item] = []
        for item in items:
            drawn += item.kept if isinstance(item, Step) else (item,)
        return [tensor for tensor in drawn if isinstance(tensor, Tensor) and not isinstance(tensor, Outside)]

    @property
    def said(self) -> str:
        named = [(each.is_kept, f"{each.name}: {short(each.n_bytes)} {each.dtype}".strip()) for each in self.tensors]
        kept, freed = ("; ".join(text for is_kept, text in named if is_kept is which) for which in (True, False))
        return f"With {self.attention} attention {short(self.kept_bytes)} are kept ({kept}), and freed are {freed}."

    def _type(self, element_bytes: int | str) -> str:
        each = self.e if element_bytes == "e" else int(element_bytes)
        return {1: "bool", 2: self.half, 4: "float32"}[each]

    def _kept(self, term: str, name: str = "", part: str = "attention") -> Tensor:
        formula: Formula = self.parts[part]
        element_bytes = next(each.element_bytes for each in formula.terms if each.name == term)
        dtype = "" if term == "random state" else self._type(element_bytes)
        return Tensor(name or term, self.terms[part][term], dtype)

    def _freed(self, name: str, elements: int = 0, element_bytes: int = 0) -> Tensor:
        each = element_bytes or self.e
        return Tensor(name, (elements or self.bsd) * each, self._type(each), is_kept=False)

    def _norm(self, part: str, name: str) -> list[Item]:
        return [self._kept("input", name, part), Step(part, (self._kept("statistics", part=part),))]

    def _into(self, part: str) -> list[Item]:
        """The input of a sub-layer's first Linear: under autocast, a copy of what the norm made in float32."""
        name = f"{'norm1' if part == 'attention' else 'norm2'}'s result"
        if not self.autocast:
            return [self._kept("input", name, part)]
        return [self._freed(name, self.bsd, 4), Step("cast"), self._kept("input", f"{name}, cast", part)]

    def _explicit(self) -> list[Item]:
        a, b, s = (self.letters[letter] for letter in "abs")
        steps: list[Item] = [Step("q kᵀ, scaled"), self._freed("scores [a, b, s, s]", a * b * s * s)]
        steps += [Step("mask, softmax", (self._kept("causal mask"),)), self._kept("weights", "weights [a, b, s, s]")]
        if self.dropout:
            mask_bytes = self.terms["attention"]["dropout mask"] - self.bsd
            steps += [Step("dropout", (Tensor("weights' mask", mask_bytes, "bool"),)), self._kept("dropped weights")]
        elif self.autocast:
            steps += [Step("cast"), self._kept("weights, in half precision", "weights, cast")]
        return [*steps, Step("times v")]

    def _kernel(self) -> list[Item]:
        kept = self._kept("logsumexp", "logsumexp [a, b, s]"), self._kept("random state")
        return [Step(f"{self.attention} attention"), Note(_TILES), Step("", kept)]

    def _dropped(self, step: str) -> Step:
        if not self.dropout:
            return Step(step)
        return Step(f"{step}, dropout", (Tensor("dropout mask", self.bsd, "bool"),))

    def _activation(self) -> list[Item]:
        """From the first Linear's result to what the second keeps."""
        rest = dict(self.terms["mlp"])
        has_input = "activation input" in rest
        h = self._kept("activation input", "h", "mlp") if has_input else self._freed("h", 4 * self.bsd)
        known = {"input", "activation input", "down input", "dropout mask"}
        beside = tuple(self._kept(term, part="mlp") for term in rest if term not in known)
        return [h, Step("φ", beside), self._kept("down input", "g", "mlp")]


def height_of(items: Iterable[Item]) -> float:
    """From the top of the first to the bottom of the last."""
    return sum(TENSOR if isinstance(item, Tensor) else item.height for item in items)

"""The categories of memory, in one list, and the book's colours: one per category or term, the same in every figure.

Each colour has a tone for light pages and one for dark pages, and a hatch (in matplotlib's letters), so that
neighbours differ without colour too. White text can be read on the light tones, black text on the dark ones.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, Self


class Colour(NamedTuple):
    """One colour: its name, its tone on a light page, its tone on a dark page, its matplotlib hatch."""

    name: str
    light: str
    dark: str
    hatch: str


PALETTE = (
    Colour("blue", "#1f64a8", "#7db8ee", ""),
    Colour("orange", "#b04f0c", "#ffb072", "/"),
    Colour("green", "#11755a", "#63d0aa", "."),
    Colour("purple", "#7b3f8c", "#d5a6e3", "\\"),
    Colour("gold", "#80660a", "#ecd166", "x"),
    Colour("cyan", "#0b6f7f", "#79d3e2", "-"),
    Colour("rose", "#ad2e55", "#ff9db5", "|"),
    Colour("slate", "#566170", "#b8c1cd", "+"),
    Colour("olive", "#5a6b18", "#c2d06d", "o"),
    Colour("indigo", "#4d4fae", "#b4b6ff", "//"),
    Colour("magenta", "#b8159f", "#ff8ae8", "*"),
    Colour("brown", "#5e3b22", "#c79b78", "\\\\"),
    Colour("navy", "#162a63", "#7f97ff", "--"),
    Colour("wine", "#66122f", "#df6685", "||"),
    Colour("ink", "#23272d", "#f4f6f8", "xx"),
)


class Category(StrEnum):
    """What a training step's memory may be, in the order in which figures stack them; each is its name, a string.

    `colour` is that of figures. `priority`: of several things that a tensor was seen to be, the one with the lowest
    number counts; None is what no tensor is seen to be. `is_state` marks what outlives a step: each such allocation is
    named by its module and parameter.

    Example: Category.OPTIMIZER_STATE == "optimizer state"
    """

    PARAMETERS = "parameters", "slate", 2, True
    GATHERED_PARAMETERS = "gathered parameters", "ink", 1, True
    BUFFERS = "buffers", "brown", 3, True
    OPTIMIZER_STATE = "optimizer state", "purple", 4, True
    CUBLAS_WORKSPACE = "cuBLAS workspace", "olive"
    INPUTS = "inputs", "blue", 7
    AUTOCAST_COPIES = "autocast copies", "cyan", 8
    ACTIVATIONS = "activations", "green", 9
    OUTPUTS = "outputs", "indigo", 10
    GRADIENTS = "gradients", "rose", 6, True
    GRADIENT_BUCKETS = "gradient buckets", "wine", 5, True
    TEMPORARIES = "temporaries", "gold", 11
    OTHER_TENSORS = "other tensors", "magenta"
    UNATTRIBUTED = "unattributed", "navy"
    SLACK = "slack", "orange"

    colour: str
    priority: int | None
    is_state: bool

    def __new__(cls, name: str, colour: str, priority: int | None = None, is_state: bool = False) -> Self:
        """A member, whose value is its name."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.colour, member.priority, member.is_state = colour, priority, is_state
        return member

    __repr__ = str.__repr__  # as the string that it is


CATEGORIES: dict[str, str] = {category: category.colour for category in Category}
"""The colour of each category of a training step's memory, in the order in which figures stack them."""

PRIORITY: dict[str, int] = {category: category.priority for category in Category if category.priority is not None}
"""The roles that a tensor may be seen to have: of several, the one with the lowest number counts."""

STATE: frozenset[str] = frozenset(category for category in Category if category.is_state)
"""The categories of what outlives a step."""

NARROWER: dict[str, str] = {"input": Category.INPUTS, "loss": Category.OUTPUTS}
"""Names for the one tensor of a category, which have its colour and its place."""

BLOCKS = {"requested": "cyan", "slack": "orange"}
"""The colour of each part of the allocator's blocks."""

TERMS = {
    "input": "blue",
    "activation input": "orange",
    "down input": "green",
    "dropout mask": "purple",
    "noise": "gold",
    "denominator": "cyan",
    "tanh output": "rose",
}
"""The colour of each term that formulas of more than one place have."""


def colour_of(name: str) -> Colour:
    """The colour of a category, or the one of this name.

    Raises: ValueError for a name that is neither.
    """
    own = CATEGORIES.get(name, name)
    for known in PALETTE:
        if known.name == own:
            return known
    names = ", ".join(known.name for known in PALETTE)
    raise ValueError(f"a colour must be a category of memory or one of {names}: got {name!r}.")


def assign(names: Iterable[str]) -> dict[str, Colour]:
    """A colour for each name: its own if it has one in the book, else the first that is free, in order of appearance.

    Raises: ValueError for more names than there are colours: two names must never look alike.
    """
    unique = list(dict.fromkeys(names))
    if len(unique) > len(PALETTE):
        raise ValueError(
            f"a figure has {len(PALETTE)} colours: got {len(unique)} names; join the smallest categories into one."
        )
    own: dict[str, str] = {}
    for name in unique:
        colour = (BLOCKS | TERMS | CATEGORIES).get(NARROWER.get(name, name))
        if colour and colour not in own.values():  # the first comer keeps it where a term and a category meet
            own[name] = colour
    free = (colour.name for colour in PALETTE if colour.name not in own.values())
    return {name: colour_of(own.get(name) or next(free)) for name in unique}

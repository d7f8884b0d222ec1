"""Sizes as expressions in the book's letters: evaluated in exact integers, printed for people, told to pages."""

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar

from every_byte.rounding import ROUNDING_BYTES

if TYPE_CHECKING:
    from sympy import Expr, Function

Number = TypeVar("Number")
Tree: TypeAlias = "int | str | list[Tree]"
LETTER_ORDER = ("b", "s", "d", "a", "L", "V", "t", "e")  # the order in which a product names them; others follow
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {  # of fractions, and of sympy's expressions
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_SIGNS: dict[
    type[ast.operator], tuple[str, int, int]
] = {  # as written, how tightly it binds, and how tightly what stands on its right must
    ast.Add: (" + ", 1, 1),
    ast.Sub: (" − ", 1, 2),
    ast.Div: ("/", 2, 4),
    ast.Mult: ("·", 3, 3),
}
_TOLD: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "^"}
_MOST_NUMBER = 2**53 - 1  # up to which JavaScript has each whole number
BRACKETS = (r"\lceil", "⌈")  # how a rounded size begins, in LaTeX and in text: in a product it comes after the letters
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def subscript(multiple: int) -> str:
    """What is written behind the bracket of a size that is rounded up: nothing for whole numbers."""
    return "" if multiple == 1 else str(multiple).translate(SUBSCRIPTS)


def in_order(letters: Iterable[str]) -> list[str]:
    """Letters without repetition, the book's own first and in its order."""
    return sorted(set(letters), key=_rank)


def _rank(letter: str) -> tuple[int, bool, str]:
    known = LETTER_ORDER.index(letter) if letter in LETTER_ORDER else len(LETTER_ORDER)
    return (known, letter.startswith(BRACKETS), letter)


class Expression:
    """A whole number written with letters, as "4*b*s*d": integers, letters, `+ - * /` and whole powers, exactly.

    `up(x, 32)` is x rounded up to a multiple of 32, or of any other whole number; `blocks(x)` is up(x, 512), what the
    caching allocator rounds a request of x bytes to. The x has to be a size itself, a whole number, 0 or more; but
    `up(x, 1)` is a fraction rounded up, as in up(L/k, 1), the number of every k-th of L.

    Raises: ValueError for text that says anything else.
    """

    def __init__(self, text: str | int) -> None:
        self.text = str(text).replace("·", "*")  # as tables show a product
        try:
            self._tree, self.letters = _parsed(self.text)
        except (SyntaxError, TypeError) as error:
            rule = "a size is made of whole numbers, letters, + - * / and whole powers, blocks(size) and up(size, 32)"
            raise ValueError(f"{rule}: got {self.text!r}.") from error

    def value(self, letters: Mapping[str, int]) -> int:
        """The exact value for these values of the letters.

        Raises: ValueError if it is negative or no whole number.
        """
        try:
            return _whole(_evaluate(self._tree, Fraction, lambda name: Fraction(letters[name]), _rounded))
        except (ZeroDivisionError, _NoSize):
            setting = ", ".join(f"{name}={letters[name]}" for name in self.letters)
            raise ValueError(f"{self.text} must be a whole number, 0 or more: it is not for {setting}.") from None

    def sympy(self) -> "Expr":
        """The same as a sympy expression; its symbols are plain, so that `subs({"b": 2})` finds them."""
        import sympy

        return _evaluate(self._tree, sympy.Integer, lambda name: sympy.Symbol(name), up_of_sympy())

    def tree(self) -> Tree:
        """The same as plain lists, which a page evaluates (page/sizes.js) without running any text.

        A whole number, a letter, or [sign, left, right]: the sign is one of `+ - * /`, `^` with a number on its right,
        or `up`, with the multiple there. A number of 2**53 or more, which JSON would round, is its digits.
        """
        return _told(self._tree)

    def __str__(self) -> str:
        return _pretty(self._tree, 0)


@cache
def _parsed(text: str) -> tuple[ast.AST, tuple[str, ...]]:
    """The syntax tree, which is not to be changed, and its letters: hundreds of formulas share their sizes."""
    tree = ast.parse(text, mode="eval").body
    return tree, tuple(in_order(_check(tree)))


def _check(node: ast.AST) -> set[str]:
    """The letters below a node of the syntax tree; TypeError for a node that a size may not have."""
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        if isinstance(node.op, ast.Pow) and not _is_whole(node.right):
            raise TypeError("a power must be a whole number")
        return _check(node.left) | _check(node.right)
    if isinstance(node, ast.Name):
        return {node.id}
    if _is_rounding(node):
        return _check(node.args[0])
    if _is_whole(node):
        return set()
    raise TypeError(f"{ast.unparse(node)} has no place in a size")


def _is_whole(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _number(node: ast.AST) -> int:
    """The whole number that a node is, which `_check` has seen."""
    assert isinstance(node, ast.Constant)
    assert isinstance(node.value, int)
    return node.value


def _is_rounding(node: ast.AST) -> TypeGuard[ast.Call]:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.keywords:
        return False
    if node.func.id == "up" and len(node.args) == 2:
        return _is_whole(node.args[1]) and _number(node.args[1]) > 0
    return node.func.id == "blocks" and len(node.args) == 1


def _rounding(node: ast.Call) -> tuple[ast.AST, int]:
    """What a call rounds up, and to multiples of what: `blocks` is called with the size alone."""
    return node.args[0], _number(node.args[1]) if len(node.args) == 2 else ROUNDING_BYTES


def _evaluate(
    node: ast.AST,
    number: Callable[[int], Number],
    letter: Callable[[str], Number],
    rounded: Callable[[Number, int], Number],
) -> Number:
    """Walks the tree with these ways to take a number, a letter, and a size that is rounded up to a multiple."""

    def walk(node: ast.AST) -> Number:
        if isinstance(node, ast.BinOp):
            right = _number(node.right) if isinstance(node.op, ast.Pow) else walk(node.right)
            result: Number = _OPERATORS[type(node.op)](walk(node.left), right)
            return result
        if isinstance(node, ast.Call):
            size, multiple = _rounding(node)
            return rounded(walk(size), multiple)
        return letter(node.id) if isinstance(node, ast.Name) else number(_number(node))

    return walk(node)


class _NoSize(ValueError):
    """A value that is negative or no whole number."""


def _whole(value: Fraction) -> int:
    if value < 0 or value.denominator != 1:
        raise _NoSize
    return int(value)


def _rounded(value: Fraction, multiple: int) -> Fraction:
    if multiple == 1 and value >= 0:
        return Fraction(math.ceil(value))
    return Fraction(-(-_whole(value) // multiple) * multiple)


@cache
def up_of_sympy() -> "type[Function]":
    """up(x, m) as a function of sympy: it stays as it is until x is a number."""
    import sympy

    class up(sympy.Function):  # type: ignore[misc]  # sympy brings no types
        @classmethod
        def eval(cls, size: "Expr", multiple: "Expr") -> "Expr | None":
            return multiple * sympy.ceiling(size / multiple) if size.is_number else None

    return up


def _pretty(node: ast.AST, around: int) -> str:
    """As a person writes it: 4·b·s·d, s², ⌈b·s⌉₅₁₂. `around` is the precedence of the operator outside."""
    if isinstance(node, ast.Call):
        size, multiple = _rounding(node)
        return f"⌈{_pretty(size, 0)}⌉" + subscript(multiple)
    if not isinstance(node, ast.BinOp):
        return node.id if isinstance(node, ast.Name) else f"{_number(node):d}"
    if isinstance(node.op, ast.Pow):
        return _pretty(node.left, 4) + str(_number(node.right)).translate(SUPERSCRIPTS)
    sign, own, right = _SIGNS[type(node.op)]
    text = _pretty(node.left, own) + sign + _pretty(node.right, right)
    return f"({text})" if around > own else text


def _told(node: ast.AST) -> Tree:
    if isinstance(node, ast.Call):
        size, multiple = _rounding(node)
        return ["up", _told(size), multiple]
    if isinstance(node, ast.BinOp):
        return [_TOLD[type(node.op)], _told(node.left), _told(node.right)]
    if isinstance(node, ast.Name):
        return node.id
    number = _number(node)
    return number if number <= _MOST_NUMBER else str(number)

"""Sizes as expressions in the book's letters: evaluated in exact integers, printed for people, LaTeX and JavaScript."""

import ast
import math
import operator
from fractions import Fraction
from functools import cache

from every_byte.rounding import ROUNDING_BYTES

LETTER_ORDER = ("b", "s", "d", "a", "L", "V", "t", "e")  # the order in which a product names them; others follow
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_SIGNS = {  # as written, how tightly it binds, and how tightly what stands on its right must
    ast.Add: (" + ", 1, 1),
    ast.Sub: (" − ", 1, 2),
    ast.Div: ("/", 2, 4),
    ast.Mult: ("·", 3, 3),
}
BRACKETS = (r"\lceil", "⌈")  # how a rounded size begins, in LaTeX and in text: in a product it comes after the letters
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def subscript(multiple: int) -> str:
    """What is written behind the bracket of a size that is rounded up: nothing for whole numbers."""
    return "" if multiple == 1 else str(multiple).translate(SUBSCRIPTS)


def in_order(letters) -> list[str]:
    """Letters without repetition, the book's own first and in its order."""
    return sorted(set(letters), key=_rank)


def _rank(letter: str) -> tuple:
    known = LETTER_ORDER.index(letter) if letter in LETTER_ORDER else len(LETTER_ORDER)
    return (known, letter.startswith(BRACKETS), letter)


class Expression:
    """A whole number written with letters, as "4*b*s*d": integers, letters, `+ - * /` and whole powers, exactly.

    `up(x, 32)` is x rounded up to a multiple of 32, or of any other whole number; `blocks(x)` is up(x, 512), what the
    caching allocator rounds a request of x bytes to. The x has to be a size itself, a whole number, 0 or more; but
    `up(x, 1)` is a fraction rounded up, as in up(L/k, 1), the number of every k-th of L.

    Raises: ValueError for text that says anything else.
    """

    def __init__(self, text: str | int):
        self.text = str(text).replace("·", "*")  # as tables show a product
        try:
            self._tree, self.letters = _parsed(self.text)
        except (SyntaxError, TypeError) as error:
            rule = "a size is made of whole numbers, letters, + - * / and whole powers, blocks(size) and up(size, 32)"
            raise ValueError(f"{rule}: got {self.text!r}.") from error

    def value(self, letters: dict[str, int]) -> int:
        """The exact value for these values of the letters.

        Raises: ValueError if it is negative or no whole number.
        """
        try:
            return _whole(_evaluate(self._tree, Fraction, lambda name: Fraction(letters[name]), _rounded))
        except (ZeroDivisionError, _NoSize):
            setting = ", ".join(f"{name}={letters[name]}" for name in self.letters)
            raise ValueError(f"{self.text} must be a whole number, 0 or more: it is not for {setting}.") from None

    def sympy(self):
        """The same as a sympy expression; its symbols are plain, so that `subs({"b": 2})` finds them."""
        import sympy

        return _evaluate(self._tree, sympy.Integer, lambda name: sympy.Symbol(name), up_of_sympy())

    def javascript(self) -> str:
        """The same as an expression of JavaScript, with a Number for each letter.

        Counts: exact for results below 2**53; NaN where the value is no whole number or negative.
        """
        if not any(isinstance(node, ast.Sub | ast.Div) for node in ast.walk(self._tree)):
            return _in_numbers(self._tree)
        return _IN_FRACTIONS.format(*_in_fractions(self._tree))

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


def _is_rounding(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.keywords:
        return False
    if node.func.id == "up" and len(node.args) == 2:
        return _is_whole(node.args[1]) and node.args[1].value > 0
    return node.func.id == "blocks" and len(node.args) == 1


def _rounding(node: ast.Call) -> tuple[ast.AST, int]:
    """What a call rounds up, and to multiples of what."""
    return node.args[0], node.args[1].value if node.func.id == "up" else ROUNDING_BYTES


def _evaluate(node: ast.AST, number, letter, rounded):
    """Walks the tree with these ways to take a number, a letter, and a size that is rounded up to a multiple."""

    def walk(node):
        if isinstance(node, ast.BinOp):
            right = node.right.value if isinstance(node.op, ast.Pow) else walk(node.right)
            return _OPERATORS[type(node.op)](walk(node.left), right)
        if isinstance(node, ast.Call):
            size, multiple = _rounding(node)
            return rounded(walk(size), multiple)
        return letter(node.id) if isinstance(node, ast.Name) else number(node.value)

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
def up_of_sympy():
    """up(x, m) as a function of sympy: it stays as it is until x is a number."""
    import sympy

    class up(sympy.Function):
        @classmethod
        def eval(cls, size, multiple):
            return multiple * sympy.ceiling(size / multiple) if size.is_number else None

    return up


def _pretty(node: ast.AST, around: int) -> str:
    """As a person writes it: 4·b·s·d, s², ⌈b·s⌉₅₁₂. `around` is the precedence of the operator outside."""
    if isinstance(node, ast.Call):
        size, multiple = _rounding(node)
        return f"⌈{_pretty(size, 0)}⌉" + subscript(multiple)
    if not isinstance(node, ast.BinOp):
        return node.id if isinstance(node, ast.Name) else f"{node.value:d}"
    if isinstance(node.op, ast.Pow):
        return _pretty(node.left, 4) + str(node.right.value).translate(SUPERSCRIPTS)
    sign, own, right = _SIGNS[type(node.op)]
    text = _pretty(node.left, own) + sign + _pretty(node.right, right)
    return f"({text})" if around > own else text


def _in_numbers(node: ast.AST) -> str:
    """JavaScript in Numbers, for a tree without - and /: its parts stay below its result, so they are as exact.

    (Except beside a factor of 0.) A quotient of two such numbers that is not whole is far enough from it for Math.ceil.
    A power is a product, because JavaScript's own may be off by a last digit.
    """
    if isinstance(node, ast.Call):
        size, multiple = _rounding(node)
        return f"{multiple}*Math.ceil(({_in_numbers(size)})/{multiple})"
    if not isinstance(node, ast.BinOp):
        return ast.unparse(node)
    if isinstance(node.op, ast.Add):
        return f"{_in_numbers(node.left)} + {_in_numbers(node.right)}"
    factors = [node.left] * node.right.value if isinstance(node.op, ast.Pow) else [node.left, node.right]
    return "*".join(f"({_in_numbers(factor)})" if _is_sum(factor) else _in_numbers(factor) for factor in factors) or "1"


def _is_sum(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)


# Whatever throws (a division by zero, a fraction where a whole number should be) is no size. No letter has a $ in it.
_IN_FRACTIONS = (
    "(($size, $divisor, $up) => {{ try {{ return Number($size({}, {})); }} catch {{ return NaN; }} }})("
    "(n, m) => {{ if (n % m || n / m < 0n) throw n; return n / m; }}, (n) => {{ if (!n) throw n; return n; }}, "
    "(n, m) => {{ if (n * m < 0n) throw n; return n / m + (n % m ? 1n : 0n); }})"
)


def _in_fractions(node: ast.AST) -> tuple[str, str]:
    """Numerator and denominator, each in BigInt. A denominator is a product of what $divisor has let pass: never 0."""
    if isinstance(node, ast.Call):
        size, multiple = _rounding(node)
        above, below = _in_fractions(size)
        if multiple == 1:
            return f"$up({above}, {below})", "1n"
        return f"(($size({above}, {below}) + {multiple - 1}n)/{multiple}n*{multiple}n)", "1n"
    if isinstance(node, ast.Name):
        return f"BigInt({node.id})", "1n"
    if isinstance(node, ast.Constant):
        return f"{node.value}n", "1n"
    above, below = _in_fractions(node.left)
    if isinstance(node.op, ast.Pow):
        return tuple(js if js == "1n" else f"({js})**{node.right.value}n" for js in (above, below))
    other_above, other_below = _in_fractions(node.right)
    if isinstance(node.op, ast.Mult):
        return _product(above, other_above), _product(below, other_below)
    if isinstance(node.op, ast.Div):
        return _product(above, other_below), _product(below, f"$divisor({other_above})")
    sign = "+" if isinstance(node.op, ast.Add) else "-"
    return f"({_product(above, other_below)} {sign} {_product(other_above, below)})", _product(below, other_below)


def _product(*factors: str) -> str:
    return "*".join(factor for factor in factors if factor != "1n") or "1n"

"""Sizes as expressions in the book's letters: evaluated in exact integers, printed for people, LaTeX and JavaScript."""

import ast
import operator
from fractions import Fraction

BOOK_LETTERS = ("b", "s", "d", "a", "L", "V", "t", "e")  # the order in which a product names them; others follow
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
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def in_order(letters) -> list[str]:
    """Letters without repetition, the book's own first and in its order."""
    return sorted(set(letters), key=_rank)


def _rank(letter: str) -> tuple:
    return (BOOK_LETTERS.index(letter), "") if letter in BOOK_LETTERS else (len(BOOK_LETTERS), letter)


class Expression:
    """A whole number written with letters, as "4*b*s*d": integers, letters, `+ - * /` and whole powers, exactly.

    Raises: ValueError for text that says anything else.
    """

    def __init__(self, text: str | int):
        self.text = str(text).replace("·", "*")  # as tables show a product
        try:
            self._tree = ast.parse(self.text, mode="eval").body
            self.letters = tuple(in_order(_check(self._tree)))
        except (SyntaxError, TypeError) as error:
            raise ValueError(
                f"a size is made of whole numbers, letters, + - * / and whole powers: got {self.text!r}."
            ) from error

    def value(self, letters: dict[str, int]) -> int:
        """The exact value for these values of the letters.

        Raises: ValueError if it is negative or no whole number.
        """
        try:
            found = _evaluate(self._tree, Fraction, lambda name: Fraction(letters[name]))
        except ZeroDivisionError:
            found = Fraction(1, 2)  # no whole number either
        if found < 0 or found.denominator != 1:
            setting = ", ".join(f"{name}={letters[name]}" for name in self.letters)
            raise ValueError(f"{self.text} must be a whole number, 0 or more: it is not for {setting}.")
        return int(found)

    def sympy(self):
        """The same as a sympy expression; its symbols are plain, so that `subs({"b": 2})` finds them."""
        import sympy

        return _evaluate(self._tree, sympy.Integer, lambda name: sympy.Symbol(name))

    def __str__(self) -> str:
        return _pretty(self._tree, 0)


def _check(node: ast.AST) -> set[str]:
    """The letters below a node of the syntax tree; TypeError for a node that a size may not have."""
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        if isinstance(node.op, ast.Pow) and not _is_whole(node.right):
            raise TypeError("a power must be a whole number")
        return _check(node.left) | _check(node.right)
    if isinstance(node, ast.Name):
        return {node.id}
    if _is_whole(node):
        return set()
    raise TypeError(f"{ast.unparse(node)} has no place in a size")


def _is_whole(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _evaluate(node: ast.AST, number, letter):
    if isinstance(node, ast.BinOp):
        right = node.right.value if isinstance(node.op, ast.Pow) else _evaluate(node.right, number, letter)
        return _OPERATORS[type(node.op)](_evaluate(node.left, number, letter), right)
    return letter(node.id) if isinstance(node, ast.Name) else number(node.value)


def _pretty(node: ast.AST, around: int) -> str:
    """As a person writes it: 4·b·s·d, s². `around` is the precedence of the operator outside."""
    if not isinstance(node, ast.BinOp):
        return node.id if isinstance(node, ast.Name) else f"{node.value:d}"
    if isinstance(node.op, ast.Pow):
        return _pretty(node.left, 4) + str(node.right.value).translate(_SUPERSCRIPTS)
    sign, own, right = _SIGNS[type(node.op)]
    text = _pretty(node.left, own) + sign + _pretty(node.right, right)
    return f"({text})" if around > own else text


def monomials(expression) -> list[tuple[Fraction, dict[str, int]]]:
    """A sympy expression as a sum of (coefficient, {letter: power}), in a stable order; powers may be negative.

    Raises: ValueError for one that divides by a sum.
    """
    import sympy

    found = []
    for summand in sympy.Add.make_args(sympy.expand(expression)):
        coefficient, product = summand.as_coeff_Mul()
        powers = {str(base): int(power) for base, power in product.as_powers_dict().items() if base != 1}
        if not all(base.is_Symbol for base in product.as_powers_dict() if base != 1):
            raise ValueError(f"a size may be divided by numbers and letters, not by a sum: got {expression}.")
        if coefficient:
            found.append((Fraction(int(coefficient.p), int(coefficient.q)), powers))
    order = in_order(letter for _, powers in found for letter in powers)
    return sorted(found, key=lambda item: [-item[1].get(letter, 0) for letter in order])


def latex(expression) -> str:
    """A sympy expression as LaTeX, expanded, each product in the order of the book's letters."""
    text = ""
    for coefficient, powers in monomials(expression):
        sign = "-" if coefficient < 0 else "+" if text else ""
        above = _latex_product(abs(coefficient.numerator), {key: n for key, n in powers.items() if n > 0})
        below = _latex_product(coefficient.denominator, {key: -n for key, n in powers.items() if n < 0})
        text += f" {sign} " + (above if below == "1" else rf"\frac{{{above}}}{{{below}}}")
    return " ".join(text.split()) or "0"


def _latex_product(number: int, powers: dict[str, int]) -> str:
    factors = [f"{number}"] if number != 1 or not powers else []
    for name in in_order(powers):
        letter = name if len(name) == 1 else rf"\mathit{{{name}}}".replace("_", r"\_")
        factors.append(letter if powers[name] == 1 else f"{letter}^{{{powers[name]}}}")
    return r" \, ".join(factors)


def javascript(expression) -> str:
    """A sympy expression as one of JavaScript, with a Number for each letter; exact for results below 2**53.

    A sum of products of positive integers stays below its result all the way, so Numbers are exact. Anything else
    (a quotient, a minus) is evaluated in BigInt, and is NaN where the quotient is no whole number.
    """
    parts = monomials(expression)
    if all(c > 0 and c.denominator == 1 and min(powers.values(), default=0) >= 0 for c, powers in parts):
        return " + ".join(_javascript_product(c.numerator, powers, "{}", "{}") for c, powers in parts) or "0"
    below_number = 1
    below = {}
    for coefficient, powers in parts:
        below_number *= coefficient.denominator
        below = {name: max(below.get(name, 0), -powers.get(name, 0), 0) for name in {*below, *powers}}
    above = [
        _javascript_product(
            int(coefficient * below_number),
            {name: powers.get(name, 0) + below.get(name, 0) for name in {*powers, *below}},
            "{}n",
            "BigInt({})",
        )
        for coefficient, powers in parts
    ]
    divisor = _javascript_product(below_number, below, "{}n", "BigInt({})")
    return f"((n, m) => m !== 0n && n % m === 0n ? Number(n / m) : NaN)({' + '.join(above)}, {divisor})"


def _javascript_product(number: int, powers: dict[str, int], as_number: str, as_letter: str) -> str:
    factors = [as_letter.format(name) for name in in_order(powers) for _ in range(powers[name])]
    return "*".join(([as_number.format(number)] if number != 1 or not factors else []) + factors)

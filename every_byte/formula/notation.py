"""A size that sympy has computed, written out: multiplied out, each product in the order of the book's letters."""

from fractions import Fraction
from typing import TYPE_CHECKING

from .expressions import BRACKETS, SUPERSCRIPTS, in_order, subscript, up_of_sympy

if TYPE_CHECKING:
    from sympy import Expr, Symbol


def monomials(expression: "Expr") -> list[tuple[Fraction, dict[str, int]]]:
    """A sympy expression as a sum of (coefficient, {letter: power}), in a stable order; powers may be negative.

    Raises: ValueError for one that divides by a sum.
    """
    import sympy

    products: list[tuple[Fraction, dict[str, int]]] = []
    for summand in sympy.Add.make_args(sympy.expand(expression)):
        coefficient, product = summand.as_coeff_Mul()
        powers = {str(base): int(power) for base, power in product.as_powers_dict().items() if base != 1}
        if not all(base.is_Symbol for base in product.as_powers_dict() if base != 1):
            raise ValueError(f"a size may be divided by numbers and letters, not by a sum: got {expression}.")
        if coefficient:
            products.append((Fraction(int(coefficient.p), int(coefficient.q)), powers))
    order = in_order(letter for _, powers in products for letter in powers)
    return sorted(products, key=lambda item: [-item[1].get(letter, 0) for letter in order])


def latex(expression: "Expr") -> str:
    """A sympy expression as LaTeX, expanded, each product in the order of the book's letters."""
    text = ""
    for coefficient, powers in monomials(_with_brackets(expression)):
        sign = "-" if coefficient < 0 else "+" if text else ""
        above = _latex_product(abs(coefficient.numerator), {key: n for key, n in powers.items() if n > 0})
        below = _latex_product(coefficient.denominator, {key: -n for key, n in powers.items() if n < 0})
        text += f" {sign} " + (above if below == "1" else rf"\frac{{{above}}}{{{below}}}")
    return " ".join(text.split()) or "0"


def plain(expression: "Expr") -> str:
    """The same in plain text, as tables show it: "12·b·s·d·e + 4·a·b·s + 24"."""
    import sympy

    def bracket(size: "Expr", multiple: "Expr") -> "Symbol":
        return sympy.Symbol(f"⌈{plain(size)}⌉" + subscript(multiple))

    text = ""
    for coefficient, powers in monomials(expression.replace(up_of_sympy(), bracket)):
        sign = (" − " if text else "−") if coefficient < 0 else " + " if text else ""
        above = _plain_product(abs(coefficient.numerator), {key: n for key, n in powers.items() if n > 0})
        below = _plain_product(coefficient.denominator, {key: -n for key, n in powers.items() if n < 0})
        text += sign + (above if below == "1" else f"{above}/{below}" if "·" not in below else f"{above}/({below})")
    return text or "0"


def parseable(expression: "Expr") -> str:
    """The same as `Expression` reads it: "12*b*s*d/t + 24". What is rounded up is taken for a letter."""
    import sympy

    def as_letter(size: "Expr", multiple: "Expr") -> "Symbol":
        return sympy.Symbol(f"up({size}, {multiple})")

    text = ""
    for coefficient, powers in monomials(expression.replace(up_of_sympy(), as_letter)):
        sign = "-" if coefficient < 0 else "+" if text else ""
        above = [str(abs(coefficient.numerator))] if abs(coefficient.numerator) != 1 else []
        above += [_power(letter, powers[letter]) for letter in in_order(powers) if powers[letter] > 0]
        below = [str(coefficient.denominator)] if coefficient.denominator != 1 else []
        below += [_power(letter, -powers[letter]) for letter in in_order(powers) if powers[letter] < 0]
        text += f" {sign} " + "/".join(["*".join(above) or "1", *below])
    return text.strip().removeprefix("+ ") or "0"


def _power(letter: str, power: int) -> str:
    return letter if power == 1 else f"{letter}**{power}"


def _plain_product(number: int, powers: dict[str, int]) -> str:
    factors = [f"{number}"] if number != 1 or not powers else []
    for name in in_order(powers):
        factors.append(name if powers[name] == 1 else name + str(powers[name]).translate(SUPERSCRIPTS))
    return "·".join(factors)


def _with_brackets(expression: "Expr") -> "Expr":
    """The same with a symbol for each rounded size, whose name is its LaTeX; the inner ones first."""
    import sympy

    def bracket(size: "Expr", multiple: "Expr") -> "Symbol":
        below = "" if multiple == 1 else f"_{{{multiple}}}"
        return sympy.Symbol(rf"{BRACKETS[0]} {latex(size)} \rceil{below}")

    return expression.replace(up_of_sympy(), bracket)


def _latex_product(number: int, powers: dict[str, int]) -> str:
    factors = [f"{number}"] if number != 1 or not powers else []
    for name in in_order(powers):
        is_plain = len(name) == 1 or name.startswith(BRACKETS[0])
        letter = name if is_plain else rf"\mathit{{{name}}}".replace("_", r"\_")
        factors.append(letter if powers[name] == 1 else f"{letter}^{{{powers[name]}}}")
    return r" \, ".join(factors)

"""Expressions: exact values, and the same values by sympy and by a page's script."""

import json
import re
import shutil
import subprocess
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from every_byte.formula.expressions import Expression, in_order
from every_byte.formula.notation import latex, monomials, parseable, plain
from every_byte.rounding import round_size
from every_byte.widget.scripts import PAGE

TEXTS = [
    "4*b*s*d",
    "0",
    "7",
    "b*s*d*(34 + 5*a*s/d)",
    "5*a*b*s**2/t + 3*b",
    "L*(12*d**2 + 2*d) + d*(V + s) + d",
    "(b - 1)*(s + 2)",
    "b*(b - 1)/2",
    "s**0 + n_hidden",
    "(a*s - a*s) + d",
]
ROUNDED = [
    "blocks(b*s)",
    "n_hidden*blocks(4*b*s + 1) + blocks(0)",
    "(L - a)*blocks(12*d**2)",
    "blocks(blocks(b*s/2) + d)**2",
    "blocks(s - d)/t",
    "up(s, 32)*b + a*up(d/a, 8)",
    "up(7*b, 24)*up(blocks(s), 1000)",
    "up(L/a, 1)*d + b*(L - up(L/a, 1))",
    "up(1/(s - d), 1)",
    "up((s - d)/2, 1)*V",
    "up(b*s, 1) + up(s/(t - d)/(b - d), 1)",
]
LETTERS = ("b", "s", "d", "a", "L", "V", "t", "n_hidden")
settings = st.fixed_dictionaries({letter: st.integers(0, 5000) for letter in LETTERS})


def rounded_up(size: Fraction, multiple: int = 512) -> Fraction:
    """Counted up in steps, which is how the rule is said. A size that is none fails like a division by zero."""
    if size < 0 or (size.denominator != 1 and multiple != 1):
        raise ZeroDivisionError
    n_steps = int(size) // multiple
    while n_steps * multiple < size:
        n_steps += 1
    return Fraction(n_steps * multiple)


@given(text=st.sampled_from(TEXTS + ROUNDED), letters=settings)
def test_values_are_those_of_exact_fractions_and_of_sympy(text, letters):
    def expected():
        known = {"F": Fraction, "blocks": rounded_up, "up": rounded_up}
        exact = eval(re.sub(r"\b(\d+)", r"F(\1)", text), known, {k: Fraction(v) for k, v in letters.items()})
        return int(exact) if exact == int(exact) and exact >= 0 else None

    try:
        by_hand = expected()
    except ZeroDivisionError:
        by_hand = None
    if by_hand is None:
        with pytest.raises(ValueError, match="must be a whole number, 0 or more: it is not for "):
            Expression(text).value(letters)
        return
    assert Expression(text).value(letters) == by_hand
    assert type(Expression(text).value(letters)) is int
    if all(letters.values()):
        assert Expression(text).sympy().subs(letters) == by_hand


def test_values_stay_exact_beyond_floats():
    assert Expression("b*s/3").value({"b": 3 * (10**30 + 1), "s": 1}) == 10**30 + 1


@pytest.mark.long
@given(letters=settings)
def test_what_is_written_out_reads_as_the_same(letters):
    letters = {letter: value + 1 for letter, value in letters.items()}
    for text in TEXTS:
        again = Expression(parseable(Expression(text).sympy()))
        assert again.sympy().subs(letters) == Expression(text).sympy().subs(letters)


def test_a_size_is_written_as_expression_reads_it():
    written = parseable(Expression("(3*b*s + up(d/t, 1)*2)/t/2 - b*4 + 1").sympy())
    assert written == "3*b*s/2/t - 4*b + 1 + up(d/t, 1)/t"


@pytest.mark.long
@given(letters=settings)
def test_monomials_add_up(letters):
    letters = {letter: value + 1 for letter, value in letters.items()}
    for text in TEXTS:
        total = Fraction(0)
        for coefficient, powers in monomials(Expression(text).sympy()):
            product = coefficient
            for letter, power in powers.items():
                product *= Fraction(letters[letter]) ** power
            total += product
        assert total == Expression(text).sympy().subs(letters)


@pytest.mark.parametrize(
    ("text", "shown", "mathematics"),
    [
        ("4*b*s*d", "4·b·s·d", r"4 \, b \, s \, d"),
        ("d*s*b", "d·s·b", r"b \, s \, d"),
        ("b*s*d*(34 + 5*a*s/d)", "b·s·d·(34 + 5·a·s/d)", r"5 \, b \, s^{2} \, a + 34 \, b \, s \, d"),
        ("5*a*b*s**2/t - b", "5·a·b·s²/t − b", r"\frac{5 \, b \, s^{2} \, a}{t} - b"),
        ("b*s/2", "b·s/2", r"\frac{b \, s}{2}"),
        ("b*s/2*d + b*(s/2)", "(b·s/2)·d + b·(s/2)", r"\frac{b \, s \, d}{2} + \frac{b \, s}{2}"),
        ("b/(s*d)", "b/(s·d)", r"\frac{b}{s \, d}"),
        ("(b*s)**2/(2*d)", "(b·s)²/(2·d)", r"\frac{b^{2} \, s^{2}}{2 \, d}"),
        ("b - (s - d)", "b − (s − d)", "b - s + d"),
        ("b/(s/d)", "b/(s/d)", r"\frac{b \, d}{s}"),
        ("4*n_hidden", "4·n_hidden", r"4 \, \mathit{n\_hidden}"),
        ("b - b", "b − b", "0"),
        ("blocks(400*e)", "⌈400·e⌉₅₁₂", r"\lceil 400 \, e \rceil_{512}"),
        ("blocks(b*s)*n/2", "⌈b·s⌉₅₁₂·n/2", r"\frac{n \, \lceil b \, s \rceil_{512}}{2}"),
        ("L*blocks(b + d)**2", "L·⌈b + d⌉₅₁₂²", r"L \, \lceil b + d \rceil_{512}^{2}"),
        ("blocks(4*blocks(s) + b)", "⌈4·⌈s⌉₅₁₂ + b⌉₅₁₂", r"\lceil b + 4 \, \lceil s \rceil_{512} \rceil_{512}"),
        ("blocks(1000)*b", "⌈1000⌉₅₁₂·b", r"1024 \, b"),
        ("a*b*up(s, 32)", "a·b·⌈s⌉₃₂", r"b \, a \, \lceil s \rceil_{32}"),
        ("a*up(d/a, 8)", "a·⌈d/a⌉₈", r"a \, \lceil \frac{d}{a} \rceil_{8}"),
        ("d*(L - up(L/k, 1))", "d·(L − ⌈L/k⌉)", r"d \, L - d \, \lceil \frac{L}{k} \rceil"),
    ],
)
def test_as_people_and_latex_write_it(text, shown, mathematics):
    assert str(Expression(text)) == shown
    assert latex(Expression(text).sympy()) == mathematics


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("b*s*d*(34 + 5*a*s/d)", "5·b·s²·a + 34·b·s·d"),
        ("d*(2 - s) - b", "−b − s·d + 2·d"),
        ("b/(s*d) + b*s/2", "b·s/2 + b/(s·d)"),
        ("4*a*b*up(s, 32) + 16", "4·b·a·⌈s⌉₃₂ + 16"),
        ("blocks(4*blocks(s) + b)", "⌈b + 4·⌈s⌉₅₁₂⌉₅₁₂"),
        ("d*(L - up(L/k, 1))", "d·L − d·⌈L/k⌉"),
        ("b - b", "0"),
    ],
)
def test_multiplied_out_in_plain_text(text, shown):
    assert plain(Expression(text).sympy()) == shown


def test_letters_come_in_the_order_of_the_book():
    assert Expression("V*L*a*d*s*b + t*e + x").letters == ("b", "s", "d", "a", "L", "V", "t", "e", "x")
    assert in_order(["z", "d", "c", "b", "d"]) == ["b", "d", "c", "z"]


@pytest.mark.parametrize(
    "text",
    ["b +", "", "f(b)", "1.5*b", "b**s", "b**-1", "-b", "b if s else d", "True", "'b'", "b%2"]
    + ["blocks()", "blocks(b, s)", "blocks(x=b)", "blocks(1.5)", "x.blocks(b)", "blocks(*b)"]
    + ["up(b)", "up(b, 0)", "up(b, -8)", "up(b, d)", "up(b, 8, 2)", "up(b, x=8)"],
)
def test_what_is_no_size_is_refused(text):
    message = (
        r"a size is made of whole numbers, letters, \+ - \* / and whole powers, blocks\(size\) and up\(size, 32\): got "
    )
    with pytest.raises(ValueError, match=message):
        Expression(text)


def test_values_that_are_no_sizes_are_refused():
    with pytest.raises(ValueError, match="b/s must be a whole number, 0 or more: it is not for b=3, s=2"):
        Expression("b/s").value({"b": 3, "s": 2})
    with pytest.raises(ValueError, match="it is not for b=3, s=0"):
        Expression("b/s").value({"b": 3, "s": 0})
    with pytest.raises(ValueError, match="b - s must be a whole number, 0 or more"):
        Expression("b - s").value({"b": 3, "s": 4})
    for size in ("b - s", "b/s"):
        with pytest.raises(
            ValueError, match=r"blocks\(b.s\)\*0 must be .*: it is not for b=3, s=4".replace("b.s", size)
        ):
            Expression(f"blocks({size})*0").value({"b": 3, "s": 4})
    with pytest.raises(ValueError, match="may be divided by numbers and letters, not by a sum"):
        monomials(Expression("b/(s + d)").sympy())


def run_by_the_page(cases: list[tuple[str, dict]]) -> list:
    """What the page's script makes of each expression with each setting, in node; a skip where there is none."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node to evaluate with; the browser test evaluates the same expressions")
    script = (PAGE / "sizes.js").read_text(encoding="utf-8").replace("export function", "function")
    program = """
        const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
        const run = ([tree, named]) => sizeAt(tree)(named);
        console.log(JSON.stringify(cases.map((one) => { const n = run(one); return Number.isNaN(n) ? "NaN" : n; })));
    """
    told = json.dumps([(Expression(text).tree(), named) for text, named in cases])
    answer = subprocess.run([node, "-e", script + program], input=told, capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)


def test_the_page_gives_the_same_integers():
    settings = [
        dict(zip(LETTERS, values, strict=True))
        for values in [
            (2, 4096, 1024, 16, 24, 50304, 8, 200),
            (1, 1, 1, 1, 1, 1, 1, 1),
            (12, 1023, 769, 13, 11, 50257, 3, 7),
            (3, 5, 7, 11, 13, 17, 19, 23),
            (31, 8191, 12289, 97, 5, 3, 1, 2),
            (2**17, 2**16 - 1, 2**17 + 1, 1, 1, 1, 3, 1),
        ]
    ]
    cases, expected = [], []
    for text in TEXTS + ROUNDED:
        for letters in settings:
            try:
                value = Expression(text).value(letters)
            except ValueError:
                value = "NaN"
            if value == "NaN" or value < 2**53:
                cases.append((text, letters))
                expected.append(value)
    assert "NaN" in expected
    assert max(value for value in expected if value != "NaN") > 2**50
    assert run_by_the_page(cases) == expected


def test_the_page_is_exact_where_a_quotient_passes_2_to_the_53():
    letters = {"b": 2**30 + 1, "s": 2**30 - 1, "d": 2**30 - 1}
    assert run_by_the_page([("b*s/d", letters)]) == [2**30 + 1]


def test_the_page_is_exact_where_a_minuend_passes_2_to_the_53():
    letters = {"b": 2**27 + 1, "s": 2**27 + 1, "d": 2**54}
    assert run_by_the_page([("b*s - d", letters)]) == [2**28 + 1]


def test_a_product_may_be_written_as_tables_show_it():
    assert Expression("4·b·s").value({"b": 2, "s": 3}) == 24


def test_blocks_are_those_of_the_caching_allocator():
    sizes = [0, 1, 511, 512, 513, 1024, 2**60 + 1]
    found = [Expression("blocks(x)").value({"x": size}) for size in sizes]
    assert found == [0, 512, 512, 512, 1024, 1024, 2**60 + 512] == [round_size(size) for size in sizes]


def test_a_number_that_json_would_round_is_told_by_its_digits():
    text = f"b*{2**60 + 1}/{2**60 + 1} + s"
    assert Expression(text).tree() == ["+", ["/", ["*", "b", str(2**60 + 1)], str(2**60 + 1)], "s"]
    assert run_by_the_page([(text, {"b": 7, "s": 1})]) == [8]


def test_a_letter_may_be_called_as_something_in_the_script():
    letters = {"n": 7, "m": 3, "size": 2, "blocks": 5}
    assert run_by_the_page([("(n - m)/size*blocks(blocks)", letters)]) == [1024]

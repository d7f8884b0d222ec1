"""Sizes as a page evaluates them, in Chromium: for expressions and letters drawn at random, Python's integers."""

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from every_byte.formula.expressions import Expression

LETTERS = ("b", "s", "d", "L", "f")
EVALUATE = """([tree, named]) => {
  const value = explorers.sizeAt(tree)(named);
  return Number.isNaN(value) ? "NaN" : value;
}"""
WITHOUT_BIGINT = f"""(given) => {{
  const kept = BigInt;
  window.BigInt = undefined;
  try {{ return ({EVALUATE})(given); }} finally {{ window.BigInt = kept; }}
}}"""
# Small numbers too, so that quotients come out whole and differences 0; blocks of them, so that rounding matters.
values = st.one_of(st.integers(0, 4), st.integers(0, 2000), st.integers(0, 20).map(lambda n: 512 * n))
letters = st.fixed_dictionaries(dict.fromkeys(LETTERS, values))
leaves = st.one_of(st.sampled_from(LETTERS), st.integers(0, 1100).map(str))


def larger(smaller):
    pairs = st.tuples(smaller, st.sampled_from(["+", "-", "*", "*", "/"]), smaller)
    return st.one_of(
        pairs.map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        st.tuples(smaller, st.integers(0, 3)).map(lambda parts: f"({parts[0]})**{parts[1]}"),
        smaller.map(lambda inner: f"blocks({inner})"),
        smaller.map(lambda inner: f"up({inner}, 1)"),
    )


expressions = st.recursive(leaves, larger, max_leaves=8)


def value_of(expression, named):
    try:
        return expression.value(named)
    except ValueError:
        return "NaN"


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(text=expressions, named=letters)
@example(text="b / (s / d)", named={"b": 3, "s": 2, "d": 0, "L": 1, "f": 1})  # a 0 below that would cancel
def test_a_page_gives_pythons_integers(page, text, named):
    expected = value_of(Expression(text), named)
    assume(expected == "NaN" or expected < 2**53)
    assert page.evaluate(EVALUATE, [Expression(text).tree(), named]) == expected


@settings(max_examples=200, deadline=None)
@given(
    text=st.recursive(leaves, lambda smaller: larger(smaller).filter(lambda text: not {*"-/"} & {*text}), max_leaves=6)
)
def test_what_needs_no_bigint_uses_none(page, text):
    """Sums, products and blocks are what sliders evaluate most; in Numbers they take a fifth of the time."""
    named = dict(zip(LETTERS, (3, 4097, 769, 12, 1), strict=True))
    expected = value_of(Expression(text), named)
    assume(expected < 2**53)
    assert page.evaluate(WITHOUT_BIGINT, [Expression(text).tree(), named]) == expected

"""Curves in a bare page, no kernel behind it: what is drawn is what was given, for each choice and on each screen."""

import math

import pytest
from bare_page import draw, redraw, settle, state
from block_with_curves import make

from every_byte.formula.formula import Formula, Term
from every_byte.widget import Account, Control, Curve, Explorer

NAMES = ["GELU", "ReLU", "Hardshrink", "Tanh", "SELU"]


@pytest.fixture(scope="module")
def explorer():
    return make(activations=NAMES)


@pytest.fixture
def shown(explorer):
    return state(explorer)


def given(explorer, name):
    """The curves of an activation, as the page got them."""
    return next(entry["curves"] for entry in explorer.spec["curves"] if entry["when"] == {"activation": name})


# ---- reading a plot as a reader does: by the numbers at its axes


def number(text):
    return float(text.replace("−", "-"))


def axis(plot, side):
    """(number, pixel) of each tick that has a number, from the texts: level ones by their middle, upright ones by y."""
    where = "Number(n.getAttribute('x'))" if side == "x" else "Number(n.getAttribute('y')) - 4"
    return [
        (number(text), at)
        for text, at in plot.locator(f"text.eb-{side}").evaluate_all(
            f"nodes => nodes.map((n) => [n.textContent, {where}])"
        )
        if text
    ]


def scale(ticks):
    """From pixels to numbers, by the outermost ticks."""
    (low, first), *_, (high, last) = ticks
    return lambda pixel: low + (high - low) * (pixel - first) / (last - first)


def read(plot):
    """(pieces, marked points) of a plot, in numbers."""
    x, y = (scale(axis(plot, side)) for side in "xy")
    drawn = plot.locator(".eb-line, .eb-dot").evaluate_all(
        """nodes => nodes.map((node) => node.tagName === "circle"
          ? [[Number(node.getAttribute("cx")), Number(node.getAttribute("cy"))]]
          : node.getAttribute("d").slice(1).split("L").map((point) => point.split(" ").map(Number)))"""
    )
    marks = plot.locator(".eb-first, .eb-second").evaluate_all(
        "nodes => nodes.map((node) => [node.cx.baseVal.value, node.cy.baseVal.value])"
    )
    return [[(x(a), y(b)) for a, b in piece] for piece in drawn], [(x(a), y(b)) for a, b in marks]


def assert_drawn(plot, curve):
    """Within a twentieth of a pixel, or of what four digits can say."""
    pieces, marks = read(plot)
    expected = [list(zip(*piece, strict=True)) for piece in curve["pieces"]]
    numbers = [abs(n) for piece in curve["pieces"] for axis in piece for n in axis]
    near = max(numbers) / 2000
    assert [len(piece) for piece in pieces] == [len(piece) for piece in expected]
    for piece, points in zip([*pieces, marks], [*expected, curve["mark"] or []], strict=True):
        assert [n for point in piece for n in point] == pytest.approx([n for point in points for n in point], abs=near)


# ---- curves


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_drawn_are_the_numbers_given(page, explorer, name):
    draw(page, state(explorer, activation=name))
    settle(page)
    plots = page.locator(".eb-plot")
    curves = given(explorer, name)
    assert plots.count() == len(curves) == 2
    for plot, curve in zip(plots.all(), curves, strict=True):
        assert_drawn(plot, curve)
        assert plot.get_attribute("aria-label") == f"{curve['title']}. {curve['caption']}"
        assert plot.locator(".eb-label").all_text_contents() == [curve["y_label"], curve["x_label"]]
    assert page.locator(".eb-curve-title").all_inner_texts() == [curve["title"] for curve in curves]
    assert page.locator(".eb-curve figcaption").all_inner_texts() == [curve["caption"] for curve in curves]


def test_ticks_are_round_evenly_spaced_and_zero_stands_out(page, shown):
    draw(page, shown)
    settle(page)
    for plot in page.locator(".eb-plot").all():
        for side, least in (("x", 3), ("y", 3)):
            ticks = axis(plot, side)
            assert len(ticks) >= least
            steps = {round(b - a, 9) for (a, _), (b, _) in zip(ticks, ticks[1:], strict=False)}
            assert len(steps) == 1
            step = steps.pop()
            assert step / 10 ** math.floor(math.log10(step) + 1e-9) == pytest.approx(
                min((1, 2, 5), key=lambda n: abs(n - step / 10 ** math.floor(math.log10(step) + 1e-9)))
            )
        assert plot.locator(".eb-zero").count() == 2


def test_a_choice_changes_the_curves_at_once_and_nothing_else_does(page, explorer, shown):
    """No kernel: `changes` hears of the choice, and the page draws it while the old account is still the last."""
    draw(page, shown)
    page.evaluate("() => { window.first = document.querySelector('.eb-plot'); }")
    page.locator('[data-exact="b"]').fill("4")
    page.locator('[data-exact="b"]').press("Enter")
    page.evaluate("([, , answer]) => view.draw(changes.at(-1), answer)", shown)
    assert page.evaluate("first === document.querySelector('.eb-plot')")
    page.get_by_role("radio", name="explicit").check()
    page.evaluate("([, , answer]) => view.draw(changes.at(-1), answer)", shown)
    assert page.evaluate("first === document.querySelector('.eb-plot')")
    page.get_by_role("combobox", name="activation").select_option("Hardshrink")
    page.evaluate("([, , answer]) => view.draw(changes.at(-1), answer)", shown)
    assert page.locator(".eb").get_attribute("data-state") == "waiting"
    for plot, curve in zip(page.locator(".eb-plot").all(), given(explorer, "Hardshrink"), strict=True):
        assert_drawn(plot, curve)


def test_jumps_are_not_bridged_and_a_single_output_is_a_dot(page, explorer):
    draw(page, state(explorer, activation="Hardshrink"))
    first, second = page.locator(".eb-plot").all()
    assert (first.locator(".eb-line").count(), first.locator(".eb-dot").count()) == (3, 0)
    assert (second.locator(".eb-line").count(), second.locator(".eb-dot").count()) == (2, 1)


def test_marks_are_joined_and_told_apart_without_colour(page, explorer, shown):
    draw(page, shown)
    fills = page.locator(".eb-plot circle.eb-first, .eb-plot circle.eb-second").evaluate_all(
        "nodes => nodes.map((node) => getComputedStyle(node).fill === getComputedStyle(node).stroke)"
    )
    assert fills == [True, False] * 2
    (x1, y1, x2, y2), (u1, v1, u2, v2) = page.locator(".eb-join").evaluate_all(
        "nodes => nodes.map((n) => ['x1', 'y1', 'x2', 'y2'].map((name) => Number(n.getAttribute(name))))"
    )
    assert y1 == pytest.approx(y2, abs=0.5)  # level over inputs
    assert u1 == pytest.approx(u2, abs=0.5)  # upright over outputs
    assert x2 - x1 > 80
    assert v1 - v2 > 50
    redraw(page, state(explorer, activation="ReLU"))
    assert page.locator(".eb-join, .eb-first, .eb-second").count() == 0


def sides(texts):
    """Left and right of each text that says something."""
    boxes = "(nodes) => nodes.filter((n) => n.textContent).map((n) => n.getBoundingClientRect())"
    return texts.evaluate_all(boxes + ".map(({ left, right }) => [left, right])")


@pytest.mark.parametrize("width", [360, 640, 900])
def test_plots_lie_side_by_side_or_one_below_the_other_and_never_stick_out(page, explorer, shown, width):
    page.set_viewport_size({"width": width, "height": 900})
    for name in NAMES:
        draw(page, state(explorer, activation=name, e=4))
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        first, second = (plot.bounding_box() for plot in page.locator(".eb-plot").all())
        assert (first["y"] == second["y"]) == (width > 600)
        inner = page.locator(".eb-controls").bounding_box()
        texts = sides(page.locator(".eb-plot text"))
        assert min(left for left, _ in texts) >= inner["x"] - 1
        assert max(right for _, right in texts) <= inner["x"] + inner["width"] + 1
        ticks = sides(page.locator(".eb-plot").first.locator("text.eb-x"))
        assert all(right + 4 < left for (_, right), (left, _) in zip(ticks, ticks[1:], strict=False))
    page.set_viewport_size({"width": 900, "height": 900})


@pytest.mark.parametrize(
    ("xs", "ys"),
    [
        ([0, 1e9], [-2e-7, 3e-7]),
        ([5, 5], [7, 7]),
        ([0, 1], [0.25, 0.25]),
        ([-1000, 3], [-0.004, 1234567]),
    ],
)
def test_numbers_of_any_size_get_an_axis(page, xs, ys):
    explorer = Explorer(
        title="A line",
        controls=[Control.range("b", "batch", 1, 4, value=1)],
        formula=lambda settings: Formula("x", (Term("x", "b", 1),)),
        measure=lambda settings: Account({"x": settings["b"]}),
        curves=lambda settings: [Curve("a line", "x", "y", [(xs, ys)])],
    )
    draw(page, state(explorer))
    settle(page)
    plot = page.locator(".eb-plot")
    assert "NaN" not in plot.evaluate("node => node.outerHTML")
    assert plot.get_attribute("aria-label") == "a line."
    found, _ = read(plot)
    for points, expected in zip(zip(*found[0], strict=True), (xs, ys), strict=True):
        near = (max(expected) - min(expected)) / 500 or 0.01
        assert list(points) == pytest.approx(expected[: len(points)], abs=near)


def test_an_explorer_without_curves_has_no_room_for_them(page):
    draw(page, state(make(activations=["GELU"], curves=None, curves_of=None)))
    assert page.locator(".eb-curves, .eb-plot").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_and_words_stand_out_from_the_page(page, shown, scheme):
    page.emulate_media(color_scheme=scheme)
    draw(page, shown)
    colours = page.evaluate(
        """() => ["eb-line stroke", "eb-first fill", "eb-label fill", "eb-x fill"].map((what) => {
          const [name, property] = what.split(" ");
          return getComputedStyle(document.querySelector(`.${name}`))[property];
        }).concat(getComputedStyle(document.querySelector(".eb")).backgroundColor)"""
    )
    page.emulate_media(color_scheme="light")
    *inks, paper = [luminance(colour) for colour in colours]
    assert (paper > 0.9) == (scheme == "light")
    assert min((max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) for ink in inks) >= 4.5


def luminance(colour):
    """WCAG's, of rgb(…) as a browser writes it."""
    channels = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(map(float.__mul__, (0.2126, 0.7152, 0.0722), linear))


def test_a_slider_is_answered_within_a_few_milliseconds(page, shown):
    """Of an explorer with 30 formulas and curves. The fastest counts: the others tell how busy the machine is."""
    draw(page, shown)
    times = page.evaluate(
        """([, value, answer]) => Array.from({ length: 60 }, (_, i) => {
          const start = performance.now();
          view.draw({ ...value, b: 1 + i }, answer);
          return performance.now() - start;
        })""",
        shown,
    )
    assert min(times) < 8

"""Curves in the kernel's half of the explorer: dense points thinned, a list for each choice, words beside the table."""

import json
import re

import block_with_curves
import pytest
import torch

from every_byte.formula.formula import Formula, Term
from every_byte.widget import Control, Curve, Explorer, pieces
from every_byte.widget.thinning import DEVIATION
from utils.experiments.activations import curve
from utils.layers import make_activation

LINE = [([0.0, 1.0], [0.0, 2.0])]


def make(**changed):
    """A small explorer of two choices, a letter, and a slider."""
    seen = []

    def curves(settings):
        seen.append(settings)
        return [Curve(f"{settings}", "x", "y", LINE, caption=f"It is {settings.get('shape')}.")]

    controls = [
        Control.choice("shape", "shape", ["round", "<flat>"]),
        Control.toggle("filled", "filled"),
        Control.choice("e", "element type", {"float32": 4}, letter="e", letters={"float32": 4}),
        Control.range("b", "batch", 1, 4, value=1),
    ]
    arguments = {"curves": curves} | changed
    formula = Formula("x", (Term("x", "b", "e"),))
    explorer = Explorer(title="A plot", controls=controls, formula=lambda s: formula, measure=lambda s: 1, **arguments)
    return explorer, seen


# ---- pieces of a dense curve


def distance_to(found, x, y):
    """Of each dense point the distance to the nearest drawn line, in units of the ranges."""
    unit = torch.stack([x.max() - x.min(), y.max() - y.min()])
    points = torch.stack([x, y], 1) / unit
    nearest = torch.full((len(points),), torch.inf, dtype=torch.float64)
    for piece in found:
        ends = torch.tensor(piece, dtype=torch.float64).T / unit
        for start, stop in zip(ends, [*ends[1:], ends[-1]], strict=True):
            chord = stop - start
            along = ((points - start) @ chord / (chord @ chord).clamp(min=1e-30)).clamp(0, 1)
            nearest = nearest.minimum((points - start - along[:, None] * chord).norm(dim=1))
    return nearest


@pytest.mark.parametrize("name", ["GELU", "Tanh", "Hardswish", "SELU", "Tanhshrink"])
def test_what_is_drawn_lies_on_the_dense_curve_also_where_it_folds(name):
    x, y, slope = (numbers[::40] for numbers in curve(make_activation(name).double()))
    for across, up in [(x, y), (y, slope)]:  # 1 %: of 6,001 points every second is looked at
        found = pieces(across, up)
        assert sum(len(xs) for xs, _ in found) <= 100
        assert float(distance_to(found, across, up).max()) <= 1.01 * DEVIATION


def test_a_jump_is_not_bridged_and_a_plateau_of_one_output_is_one_point():
    x, y, slope = curve(make_activation("ReLU").double())
    assert pieces(y, slope) == [([0.0], [0.0]), ([pytest.approx(0, abs=1e-4), 6.0], [1.0, 1.0])]
    assert [(xs[0], ys) for xs, ys in pieces(x, slope)] == [
        (-6.0, [0.0, 0.0]),
        (pytest.approx(0, abs=1e-4), [1.0, 1.0]),
    ]
    ((xs, ys),) = pieces(x, y)
    assert (xs, ys) == ([-6.0, pytest.approx(0, abs=4e-3), 6.0], [0.0, pytest.approx(0, abs=4e-3), 6.0])  # the kink


def test_the_most_needed_points_are_kept_and_no_more_than_asked_for():
    x = torch.linspace(0, 1, 5000)
    ((xs, ys),) = pieces(x, (x - 0.5).abs(), most=3)
    assert (xs, ys) == ([0, pytest.approx(0.5, abs=1e-3), 1], [0.5, pytest.approx(0, abs=1e-3), 0.5])
    assert sum(len(xs) for xs, _ in pieces(x, (100 * x).sin(), most=40)) == 40


def test_points_that_are_not_dense_are_told_so():
    with pytest.raises(ValueError, match=r"neighbours nearer than 1/50 of their range: got 29 jumps in 30 points"):
        pieces(range(30), [n % 2 for n in range(30)], most=50)


# ---- what a curve may be


@pytest.mark.parametrize(
    ("points", "more", "message"),
    [
        ([], {}, "points must hold pieces, each as many x as y: got [] of them in 'GELU'."),
        ([([0.0], [])], {}, "each as many x as y: got [(1, 0)] of them in 'GELU'."),
        ([([], [])], {}, "got [(0, 0)] of them"),
        ([([0.0] * 101, [0.0] * 101)] * 2, {}, "at most 200 points: got 202 in 'GELU'; pass points=pieces(x, y)."),
        ([([0.0], [float("nan")])], {}, "points must be finite: got nan in 'GELU'; end the piece before it."),
        (LINE, {"mark": ((0.0, float("inf")), (1.0, 1.0))}, "points must be finite: got inf in 'GELU'"),
        (LINE, {"mark": ((0.0, 1.0),)}, "mark must be two points ((x, y), (x, y)): got ((0.0, 1.0),) in 'GELU'."),
    ],
)
def test_a_curve_that_cannot_be_drawn_is_refused(points, more, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Curve("GELU", "x", "y", points, **more)


def test_a_page_gets_four_digits():
    mark = ((-2.3122499999, -0.0240056758), (-0.04999999999999972, 1.0))
    spec = Curve("GELU", "x", "y", [([1 / 3, 123456.0], [-1e-9, 2])], mark, "A sentence.").spec()
    assert json.loads(json.dumps(spec)) == {
        "title": "GELU", "x_label": "x", "y_label": "y", "caption": "A sentence.",
        "pieces": [[[0.3333, 123500.0], [-1e-09, 2.0]]], "mark": [[-2.312, -0.02401], [-0.05, 1.0]],
    }  # fmt: skip


# ---- which settings have which


def test_curves_are_asked_for_once_for_each_choice_and_see_no_other_setting():
    explorer, seen = make()
    assert seen == [
        {"shape": shape, "filled": is_filled} for shape in ("round", "<flat>") for is_filled in (False, True)
    ]
    assert [entry["when"] for entry in explorer.spec["curves"]][1] == {"shape": "round", "filled": "on"}
    explorer, seen = make(curves_of=("shape",))
    assert seen == [{"shape": "round"}, {"shape": "<flat>"}]
    assert [entry["when"] for entry in explorer.spec["curves"]] == [{"shape": "round"}, {"shape": "<flat>"}]


def test_curves_that_depend_on_nothing_are_asked_for_once():
    explorer, _ = make(curves=lambda settings: [Curve("one", "x", "y", LINE)], curves_of=())
    assert [(entry["when"], len(entry["curves"])) for entry in explorer.spec["curves"]] == [({}, 1)]


def test_an_explorer_without_curves_has_none():
    explorer, _ = make(curves=None)
    assert explorer.spec["curves"] == []


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"curves": None, "curves_of": ("shape",)}, ValueError, "curves_of=('shape',) alone; pass curves=function"),
        ({"curves_of": "shape"}, ValueError, "must be a sequence of names: got 'shape'; write curves_of=('shape',)."),
        ({"curves_of": ("e",)}, ValueError, "name choices that are no letter: got 'e'; there are shape, filled."),
        ({"curves_of": ("b",)}, ValueError, "name choices that are no letter: got 'b'; there are shape, filled."),
        ({"curves_of": ("size",)}, ValueError, "got 'size'; there are shape, filled."),
        ({"curves": lambda s: [1]}, TypeError, "a list of Curve: got int for shape=round, filled=off."),
        ({"curves": lambda s: None}, TypeError, "a list of Curve: got NoneType for shape=round, filled=off."),
        ({"curves": lambda s: Curve("a", "x", "y", LINE)}, TypeError, "a list of Curve: got Curve for shape=round"),
    ],
)
def test_what_gives_no_curves_is_refused(changed, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make(**changed)


def test_the_captions_follow_the_table_where_there_is_no_page():
    explorer, _ = make(curves_of=("shape",))
    explorer.shape = "<flat>"
    html = explorer._repr_mimebundle_()[0]["text/html"]
    assert html.endswith("</p><p>{&#x27;shape&#x27;: &#x27;&lt;flat&gt;&#x27;}: It is &lt;flat&gt;.</p>")
    assert "It is round" not in html
    assert "It is" not in repr(explorer.table())


@pytest.mark.nightly
def test_all_activations_with_two_curves_each_take_little_room():
    explorer = block_with_curves.make()
    assert len(block_with_curves.NAMES) >= 20
    assert len(explorer.spec["which"]) == 6 * len(block_with_curves.NAMES)
    assert [len(entry["curves"]) for entry in explorer.spec["curves"]] == [2] * len(block_with_curves.NAMES)
    assert len(json.dumps(explorer.spec)) < 100_000
    folded = [entry["when"]["activation"] for entry in explorer.spec["curves"] if entry["curves"][0]["mark"]]
    assert folded == ["GELU", "Hardswish", "Mish", "SiLU"]

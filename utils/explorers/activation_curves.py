"""An activation and its derivative over its output, as the curves that an explorer draws."""

from dataclasses import replace
from functools import cache

from every_byte.widget import Curve, pieces
from utils.experiments.activations import curve, plain, widest_fold
from utils.layers import make_activation

SHOWN = -6.0, 2.0  # inputs: every activation of torch.nn that folds does so between them
DRAWN = 20  # one of so many points: the rest is for finding folds


@cache
def activation_curves(name: str) -> tuple[Curve, Curve]:
    """y over x, and dy/dx over y, of the activation of torch.nn of that name; where the latter folds, it is marked.

    The mark joins two inputs of one output, those of `widest_fold`.

    Raises: ValueError for a name that `make_activation` does not know.
    """
    function = make_activation(name).double()
    points = curve(function)
    fold = widest_fold(function, points)
    x, y, slope = (numbers[::DRAWN] for numbers in points)
    shown = (x >= SHOWN[0]) & (x <= SHOWN[1])
    x, y, slope = x[shown], y[shown], slope[shown]
    value = Curve(f"{name} over its input", "input x", "output y", pieces(x, y))
    derivative = Curve(f"{name}: derivative over output", "output y", "derivative dy/dx", pieces(y, slope))
    if fold is None:
        return (
            replace(value, caption="It never turns round."),
            replace(derivative, caption="Each output has one derivative."),
        )
    (x1, x2), (slope1, slope2) = fold.x, fold.derivatives
    y_there = plain(fold.y, 3)
    at_inputs = f"At x = {plain(x1, 2)} and x = {plain(x2, 2)} the output is {y_there}."
    slopes = f"The output {y_there} has the derivatives {plain(slope1, 2)} and {plain(slope2, 2)}."
    return (
        replace(value, mark=((x1, fold.y), (x2, fold.y)), caption=at_inputs),
        replace(derivative, mark=((fold.y, slope1), (fold.y, slope2)), caption=slopes),
    )

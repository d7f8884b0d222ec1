"""An explorer in parts, with curves, for the tests: what a block keeps, and how its activation and its slope run."""

from every_byte.widget import Account, Control, Curve, Explorer, pieces
from utils.experiments.activations import curve, widest_fold
from utils.formulas.block import block_parts
from utils.formulas.mlp import ACTIVATIONS
from utils.layers import make_activation

UNLIKE = ("RReLU", "Threshold", "Softmax", "Softmax2d", "Softmin", "LogSoftmax", "Identity")  # no single curve, or none
NAMES = [name for name in ACTIVATIONS if not name.endswith("_") and name not in UNLIKE]
ATTENTIONS = ["flash", "efficient", "explicit"]
PARTS = ("norm1", "attention", "norm2", "mlp")
HIGHEST = 2.0  # of the inputs drawn: curves fold below 0


def curves(settings) -> list[Curve]:
    """The activation over its input, and its derivative over its output; marked: two inputs that share an output."""
    name = settings["activation"]
    function = make_activation(name).double()
    x, y, slope = curve(function)
    x, y, slope = x[x <= HIGHEST], y[x <= HIGHEST], slope[x <= HIGHEST]
    fold = widest_fold(function)
    here = there = None
    told = "Each output has one slope."
    if fold is not None:
        (x1, x2), slopes = fold.x, fold.derivatives
        here, there = ((x1, fold.y), (x2, fold.y)), tuple((fold.y, slope) for slope in slopes)
        told = f"An output of {fold.y:.3f} may have the slope {slopes[0]:.2f} or {slopes[1]:.2f}."
    both = "" if fold is None else f" Inputs {fold.x[0]:.2f} and {fold.x[1]:.2f} share an output."
    return [
        Curve(f"{name} over its input", "input x", "output y", pieces(x, y), here, f"What {name} computes.{both}"),
        Curve(f"{name}: slope over output", "output y", "slope dy/dx", pieces(y, slope), there, told),
    ]


def formula(settings) -> dict:
    """What a block keeps for backward, by its parts."""
    return block_parts(**{name: settings[name] for name in ("attention", "activation", "dropout")})


def bytes_of(settings) -> dict[str, dict[str, int]]:
    """The formula's bytes at a setting, by part."""
    letters = {letter: settings[letter] for letter in "bsdae"}
    return {part: found.by_term(**letters) for part, found in formula(settings).items()}


def measure(settings) -> Account:
    """An account that agrees."""
    return Account(bytes_of(settings), device="a100-80gb")


def make(formula=formula, measure=measure, activations=NAMES, **changed) -> Explorer:
    """The explorer, as a reader first sees it."""
    bytes_each = {"float32": 4, "bfloat16": 2}
    controls = [
        Control.range("b", "batch", 1, 64, value=2, log=True, unit="sequences"),
        Control.range("s", "sequence", 128, 8192, value=1024, log=True),
        Control.range("d", "width", 128, 4096, value=1024, log=True),
        Control.range("a", "heads", 1, 64, value=16, log=True),
        Control.choice("activation", "activation", activations, value="GELU"),
        Control.choice("attention", "attention", ATTENTIONS),
        Control.toggle("dropout", "dropout"),
        Control.choice("e", "element type", bytes_each, value=2, letter="e", letters=bytes_each),
    ]
    more = {"parts": True, "curves": curves, "curves_of": ("activation",)} | changed
    return Explorer(title="What a block keeps", controls=controls, formula=formula, measure=measure, **more)

"""An explorer of five stages for the tests: a stack of linear layers, its first f frozen, through one training step."""

from every_byte.formula.formula import Formula, Term
from every_byte.widget import Account, Control, Explorer

STAGES = ("model to device", "forward", "backward", "optimizer step", "zero_grad")
STATES = {"SGD": 0, "SGD, momentum": 1, "Adam": 2}  # tensors of a parameter's size that the optimizer keeps


def formula(settings) -> dict[str, Formula]:
    """What is there at the end of each stage."""
    weights = Term("weights", "L*blocks(e*d**2)", 1, why="one square matrix for each layer")
    inputs = Term("kept inputs", "(L - f)*blocks(e*b*d)", 1, why="weight gradient of each trained layer")
    gradients = Term("gradients", "(L - f)*blocks(e*d**2)", 1, why="of the trained layers")
    n = STATES[settings["optimizer"]]
    states = [Term("optimizer state", f"{n}*(L - f)*blocks(e*d**2)", 1, why=settings["optimizer"])] if n else []
    kept = [[weights], [weights, inputs], [weights, gradients], [weights, gradients, *states], [weights, *states]]
    return {name: Formula(f"{name}: live bytes", tuple(terms)) for name, terms in zip(STAGES, kept, strict=True)}


def bytes_by_hand(settings) -> dict[str, dict[str, int]]:
    """The same bytes from plain integers. Raises ValueError, as a program would, for more frozen layers than layers."""
    layers, frozen, batch, width, each = (settings[letter] for letter in "Lfbde")
    if frozen > layers:
        raise ValueError(f"frozen must be at most the number of layers: got f={frozen}, L={layers}.")
    square, row = (-(-each * n // 512) * 512 for n in (width * width, batch * width))
    trained = layers - frozen
    state = {"optimizer state": STATES[settings["optimizer"]] * trained * square}
    state = state if state["optimizer state"] or STATES[settings["optimizer"]] else {}
    weights, gradients = {"weights": layers * square}, {"gradients": trained * square}
    stages = [weights, weights | {"kept inputs": trained * row}, weights | gradients]
    return dict(zip(STAGES, [*stages, weights | gradients | state, weights | state], strict=True))


def measure(settings) -> Account:
    """An account that agrees."""
    return Account(bytes_by_hand(settings), device="a100-80gb")


def make(formula=formula, measure=measure) -> Explorer:
    """The explorer, closed as a reader first sees it."""
    controls = [
        Control.range("L", "layers", 1, 64, value=12, log=True),
        Control.range("f", "frozen layers", 0, 12, value=4),
        Control.range("b", "batch", 1, 8192, value=4096, log=True, unit="rows"),
        Control.range("d", "width", 1, 8192, value=1024, log=True),
        Control.choice("optimizer", "optimizer", list(STATES), value="Adam"),
        Control.choice(
            "e", "element type", {"float32": 4, "bfloat16": 2}, letter="e", letters={"float32": 4, "bfloat16": 2}
        ),
    ]
    return Explorer(title="One training step, stage by stage", controls=controls, formula=formula, measure=measure)

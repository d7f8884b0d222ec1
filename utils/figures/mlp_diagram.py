"""The MLP as a diagram: each tensor of its forward pass, and which of them backward will find."""

from every_byte.units import short
from utils.formulas.mlp import mlp_saved

from .diagram import Box, Diagram

_STEPS = ("up", "φ", "down")


def mlp_tensors(activations=("gelu", "relu"), **letters: int) -> Diagram:
    """A column for each activation: input, hidden tensors and output, filled if they are kept for backward.

    `letters` are b, s, d and e.

    Unit: bytes of each tensor, rounded.
    """
    names = {"gelu": "GELU", "relu": "ReLU"}
    kept = {name: mlp_saved(activation=name).by_term(**letters) for name in activations}
    bsd = letters["b"] * letters["s"] * letters["d"] * letters["e"]
    tensors = (("x", bsd, "input"), ("h", 4 * bsd, "activation input"), ("g", 4 * bsd, "down input"), ("y", bsd, ""))
    said = []
    for name in activations:
        is_kept = [letter for letter, _, term in tensors if term in kept[name]]
        said.append(f"{names[name]}: {', '.join(is_kept)} are kept, {short(sum(kept[name].values()))}")
    diagram = Diagram(f"The tensors of an MLP, from x over h and g to y. {'; '.join(said)}.", 330)
    for column, name in enumerate(activations):
        x = 20 + 215 * column
        diagram.text(x + 92, 18, names[name], anchor="middle")
        above: Box | None = None
        for row, (letter, n_bytes, term) in enumerate(tensors):
            width = 184 if n_bytes > bsd else 92
            colour = "activations" if term in kept[name] else ""
            place = x + (184 - width) / 2, 36 + 68 * row, width, 40
            box = diagram.box(*place, f"{letter}  {short(n_bytes)}", colour=colour, dashed=not colour)
            if above:
                diagram.arrow(above.bottom, box.top)
                diagram.text(above.bottom[0] + 8, above.bottom[1] + 14, _STEPS[row - 1], tone="faint", size=13)
            above = box
        diagram.text(x + 92, 302, f"kept: {short(sum(kept[name].values()))}", anchor="middle")
    return diagram

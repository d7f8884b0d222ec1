"""What a training on batches of varying length has asked for when it needs most: a closed form for each category."""

from every_byte.formula.formula import Formula, Term


def lengths_peak(*, d: int, workspace_bytes: int) -> Formula:
    """What `train_on_lengths` holds at its peak, in backward of its third batch, of 3/4 s tokens, at the ReLU.

    Shapes: x[3s/4, d] -> h[3s/4, 4d] -> relu -> y[3s/4, d], float32
    Counts: requested bytes by category; the optimizer's two step counts, the loss and its gradient have 4 each.
    Unit:   bytes, exact, for an s from 1,400 to 10,000 tokens; with fewer the last gradient makes the peak, with more
            the first batch.
    Source: held to the simulated GPU by tests/formulas/test_varying_lengths.py.
    """
    weights = f"8*{d}**2"
    hidden = f"3*s/4*4*{d}"
    terms = (
        Term("parameters", weights, 4, why="two weights"),
        Term("optimizer state", f"2*{weights} + 2", 4, why="two numbers of AdamW for each weight, and two counts"),
        Term("cuBLAS workspace", "2", workspace_bytes, why="forward's and backward's"),
        Term("inputs", f"3*s/4*{d}", 4, why="the third batch"),
        Term("activations", hidden, 4, why="the ReLU's result"),
        Term("outputs", "1", 4, why="the loss"),
        Term("gradients", f"4*{d}**2", 4, why="of the second weight"),
        Term("temporaries", f"2*({hidden}) + 1", 4, why="the gradients behind and before the ReLU"),
    )
    return Formula("What the training asks for at its peak", terms)

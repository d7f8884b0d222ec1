"""How many numbers a Llama has."""

from every_byte.formula.expressions import Expression

from .decoder_counts import count_of
from .families import LLAMA

BLOCK_WEIGHTS = LLAMA.weights
"""Those of the seven Linears of a block."""


def llama_parameter_count(*, is_tied: bool = False) -> Expression:
    """The number of a Llama's parameters.

    Shapes: tokens[V, d]; in each of L blocks q[d, d], k and v[g d/a, d], out[d, d], gate, up and down of d f each, and
            two norms of d; a last norm of d; head[V, d]
    Counts: the head once, with the embedding, if it is tied to it. Not the tables of rotary positions, buffers.
    Source: held to `Llama` by tests/formulas/test_llama.py.
    """
    return Expression(count_of(LLAMA, is_tied))

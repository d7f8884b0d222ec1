"""How many parameters well-known language models have, from the shapes that were published."""

from every_byte.formula.expressions import Expression

SHAPES = {
    "Llama 3.2 1B": {"L": 16, "d": 2048, "k": 512, "w": 8192, "V": 128256, "E": 1},
    "Llama 2 7B": {"L": 32, "d": 4096, "k": 4096, "w": 11008, "V": 32000, "E": 2},
    "Llama 2 70B": {"L": 80, "d": 8192, "k": 1024, "w": 28672, "V": 32000, "E": 2},
    "Llama 3.1 405B": {"L": 126, "d": 16384, "k": 1024, "w": 53248, "V": 128256, "E": 2},
}
"""Blocks L, width d, k numbers of a position's keys and as many of its values, the MLP's width w, tokens V; E is 1 for
an embedding that is the head too, and 2 for two matrices.

Source: Touvron et al. 2023, "Llama 2"; Dubey et al. 2024, "The Llama 3 Herd of Models"; the models' `config.json`.
"""


def gated_parameter_count() -> Expression:
    """The number of parameters of a model of SHAPES: no biases, a gated MLP, keys and values with heads of their own.

    Shapes: in each of L blocks query[d, d], out[d, d], key[k, d], value[k, d], gate, up and down[w, d], two norms of d;
            E matrices[V, d], a last norm of d
    Source: held to modules of these shapes, and to the published counts, by tests/formulas/test_published.py.
    """
    return Expression("L*(2*d**2 + 2*d*k + 3*d*w + 2*d) + E*V*d + d")

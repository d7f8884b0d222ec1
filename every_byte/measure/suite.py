"""The programs of `every-byte measure`: what they do on a GPU, and where their figures are read.

A program is a generator: it is given a GPU, a live or a simulated one, and yields a name wherever all counters are to
be compared. Each runs in a process of its own, and needs PyTorch alone.
"""

from collections.abc import Callable, Iterator

from every_byte.gpu.protocol import GPU

from . import operators, training

Program = Callable[[GPU], Iterator[str]]
PROGRAMS: dict[str, Program] = {
    program.__name__: program
    for program in (
        operators.blocks,
        operators.out_of_memory,
        operators.elementwise,
        operators.reductions,
        operators.products,
        operators.orders_and_indices,
        operators.attention,
        training.mlp_in_float32,
        training.gpt_under_autocast,
        training.gpt_in_half_precision,
        training.gpt_with_checkpoints,
        training.gpt_with_accumulation,
        training.encoder,
        training.convolutions,
        training.compiled,
    )
}
NOT_FOLLOWED = {
    "convolutions": "cuDNN asks for workspaces whose size it chooses on the card; the difference is what it took",
    "compiled": "a compiler fuses operations and keeps other tensors; the simulation runs the program as written",
}
"""Programs in which something is measured that the simulation does not follow, and what that is."""

"""All families of operators: importing this module registers what each knows, but for those that PyTorch has late."""

from . import (  # noqa: F401
    alignments,
    copies,
    creation,
    elementwise,
    grouped_products,
    indexing,
    losses,
    margin_losses,
    normalization,
    optimizers,
    products,
    recurrent,
    reductions,
    scans_and_sorts,
    softmax_dropout,
)
from .attention import composite, efficient, encoder, flash  # noqa: F401

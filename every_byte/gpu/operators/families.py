"""All families of operators: importing this module registers what each knows, but for those that PyTorch has late."""

from . import (  # noqa: F401
    copies,
    creation,
    distinct,
    elementwise,
    indexing,
    losses,
    normalization,
    optimizers,
    products,
    reductions,
    scans_and_sorts,
    selections,
    softmax_dropout,
)
from .attention import composite, efficient, encoder, flash  # noqa: F401

"""All families of operators: importing this module registers what each knows, but for those that PyTorch has late."""

from . import (  # noqa: F401
    batch_norm,
    bilinear,
    convolution,
    copies,
    creation,
    distances,
    elementwise,
    embedding_bags,
    group_norm,
    indexing,
    losses,
    margins,
    normalization,
    optimizers,
    pooling,
    products,
    products_of_elements,
    reductions,
    resampling,
    scans_and_sorts,
    softmax_dropout,
)
from .attention import composite, efficient, encoder, flash  # noqa: F401

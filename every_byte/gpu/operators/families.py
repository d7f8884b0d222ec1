"""All families of operators: importing this module registers what each knows, but for those that PyTorch has late."""

from . import (  # noqa: F401
    alignments,
    batch_norm,
    bilinear,
    convolution,
    copies,
    creation,
    elementwise,
    embedding_bags,
    group_norm,
    grouped_products,
    indexing,
    losses,
    margin_losses,
    normalization,
    optimizers,
    pooling,
    products,
    products_of_elements,
    recurrent,
    reductions,
    resampling,
    scans_and_sorts,
    scattering,
    softmax_dropout,
)
from .attention import composite, efficient, encoder, flash  # noqa: F401

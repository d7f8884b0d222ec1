"""All rules: importing this module registers them."""

from . import (
    embeddings,
    gradients,
    indexing,
    losses,
    normalization,
    reduction_rules,
    scans_and_sorts,
    transfers,
    workspaces,
)
from .call import RULES
from .outputs import outputs_alone

__all__ = ["RULES", "outputs_alone"]
_REGISTERED = (
    *(embeddings, gradients, indexing, losses, normalization),
    *(reduction_rules, scans_and_sorts, transfers, workspaces),
)

"""All rules: importing this module registers them, but for those of operators that PyTorch itself registers late."""

from importlib import import_module

import torch

from . import copies as transfers
from . import embeddings, indexing, losses, normalization, scans_and_sorts
from . import optimizers as gradients
from . import products as workspaces
from . import reductions as reduction_rules
from .outputs import outputs_alone
from .registry import RULES

__all__ = ["RULES", "import_late", "outputs_alone"]
_REGISTERED = (
    *(embeddings, gradients, indexing, losses, normalization),
    *(reduction_rules, scans_and_sorts, transfers, workspaces),
)
_LATE = {"_c10d_functional": "collectives", "c10d": "exchanges", "fsdp": "sharded_copies"}


def import_late(func: torch._ops.OpOverload) -> None:
    """Import the rules of a namespace that `import torch` alone does not bring, when one of its operators is met."""
    if func.namespace in _LATE:
        import_module(f".{_LATE[func.namespace]}", __package__)

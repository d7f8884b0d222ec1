"""What others say that training takes: accelerate's estimate, PyTorch's MemTracker, and the usual formula."""

import importlib
import warnings
from collections.abc import Mapping
from copy import deepcopy

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from every_byte.formula.expressions import Expression
from every_byte.step.batch import made
from every_byte.step.initialization import without_initialization

from .architectures import Architecture

USUAL_BYTES_A_PARAMETER = 16
"""A parameter's own, its gradient's and its two moments', 4 bytes each; in mixed precision 2 + 2 + 12 as well."""

BEYOND_MEM_TRACKER = {
    "cannot register a hook on a tensor that doesn't require gradient": (
        "it hooks the gradient of every parameter, and one of this model's never gets a gradient"
    ),
    "Expected inputs of BF16 type": (
        "on the CPU, fake tensors have the grouped products of the experts only in bfloat16"
    ),
}
"""By what is raised: limits of MemTracker, and of the fake tensors that it works on, in words."""


def n_parameters(model: nn.Module) -> int:
    """How many numbers a model's parameters have, those that are tied counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


def of_accelerate(model: nn.Module) -> int:
    """What `accelerate estimate-memory` prints as "Training using Adam", in float32, of a model.

    Unit:   bytes.
    Source: accelerate.commands.estimate, whose own two functions are called; the command itself asks a network.
    """
    total_bytes, _ = importlib.import_module("accelerate.utils").calculate_maximum_sizes(model)
    usage = importlib.import_module("accelerate.commands.estimate").estimate_training_usage(total_bytes, "float32")
    return int(max(usage.values()))


def of_usual_formula(architecture: Architecture, model: nn.Module) -> tuple[int, int | None]:
    """16 bytes a parameter, and what Korthikanti et al. say of the activations of its blocks, None if they say nothing.

    Counts: s b d L (34 + 5 a s / d): 16-bit activations, with dropout, and scores of attention that are kept.
    Unit:   bytes.
    Source: Korthikanti et al. 2022, equation 2.
    """
    states_bytes = USUAL_BYTES_A_PARAMETER * n_parameters(model)
    if not isinstance(architecture.block, Mapping):
        return states_bytes, None
    b, s, d, a, L = (Expression(architecture.block[x]).value(architecture.letters) for x in ("b", "s", "d", "a", "L"))
    return states_bytes, s * b * L * (34 * d + 5 * a * s)


def why_not(raised: str) -> str:
    """In words why MemTracker cannot follow a model, by what it raised; that itself where it is not known."""
    return next((why for said, why in BEYOND_MEM_TRACKER.items() if said in raised), raised)


def of_mem_tracker(architecture: Architecture, n_steps: int = 2) -> int | str:
    """The peak that PyTorch's MemTracker sees of the same steps on fake tensors; in words what it raises, if it does.

    The fake tensors are the CPU's: PyTorch's CPU build cannot fill fake ones of CUDA. AdamW works on lists of tensors,
    as it does on CUDA unless it is told otherwise.

    Counts: no workspaces, and attention as the CPU's kernels do it.
    Unit:   bytes.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _tracked(architecture, n_steps)
    except Exception as error:  # whatever a model or the tracker says of fake tensors
        first = (str(error).strip().splitlines() or [""])[0]
        return f"{type(error).__name__}: {first}"[:120]


def _tracked(architecture: Architecture, n_steps: int) -> int:
    # made as the account makes it, then copied: some libraries read numbers while they make a model
    with without_initialization():
        real = architecture.maker()(**architecture.model_letters).train()
    fake = FakeTensorMode()
    with FakeCopyMode(fake):
        model = deepcopy(real)
    with fake:
        return _peak_of(model, architecture, n_steps)


def _peak_of(model: nn.Module, architecture: Architecture, n_steps: int) -> int:
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    batch = made(dict(architecture.batch), architecture.letters)
    tracker = MemTracker()
    tracker.track_external(model, optimizer, *(part for part in batch.values() if isinstance(part, torch.Tensor)))
    with tracker:
        for _ in range(n_steps):
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            model.zero_grad()
            tracker.reset_mod_stats()
    return tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]

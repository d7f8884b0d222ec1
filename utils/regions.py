"""Which regions of a GPT run through a checkpoint: blocks, segments of several blocks, or attention's core alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import sqrt

import torch
import torch.utils.checkpoint
from torch import nn

from .checkpointing import checkpoint
from .gpt import GPT
from .layers import Attention, check_positive

REGIONS = ("none", "every block", "every k-th block", "k segments", "sqrt(L) segments", "attention only")

library_checkpoint = partial(torch.utils.checkpoint.checkpoint, use_reentrant=False)
"""PyTorch's own checkpoint, in the form that it recommends."""


def set_regions(model: GPT, regions: str, *, k: int | None = None, run: Callable = checkpoint) -> GPT:
    """Have a GPT run these regions through a checkpoint from now on, and return it; "none" undoes that.

    "every k-th block" takes the first of each k blocks, "k segments" runs of consecutive blocks, as equal in number as
    can be, longer ones first; "sqrt(L) segments" has k = sqrt(L), rounded. "attention only" is the core of attention
    from q, k and v to y: scores, mask, softmax, its dropout and the product with v, or PyTorch's kernel for all that.
    `run(function, *args)` runs a region; `checkpoint` of this book or `library_checkpoint`.

    Code, parameters, `state_dict()` and the names of modules stay as they are. Meanwhile `model.blocks` gives regions.

    Raises: TypeError for a model that is no GPT; ValueError for unknown regions, and for a k that is missing, not
            asked for, no positive integer or larger than the number of blocks.
    Source: "attention only" is the selective recomputation of Korthikanti et al. 2022, section 5; sqrt(L) segments
            are Chen et al. 2016, section 4.
    """
    _check(model, regions, k)
    _restore(model)
    blocks = list(model._modules["blocks"])
    if regions == "attention only":
        for block in blocks:
            _checkpoint_core(block.attention, run)
    elif regions != "none":
        # The instance's own attribute is found before its submodule of the same name, which stays where it is.
        model.__dict__["blocks"] = _regions(blocks, regions, k, run)
    return model


@contextmanager
def checkpointed(model: GPT, regions: str, *, k: int | None = None, run: Callable = checkpoint) -> Iterator[GPT]:
    """`set_regions` for the time of a `with` block. Its backward may come later.

    Raises: as `set_regions`.
    """
    set_regions(model, regions, k=k, run=run)
    try:
        yield model
    finally:
        _restore(model)


def _check(model: GPT, regions: str, k: int | None) -> None:
    if not isinstance(model, GPT):
        raise TypeError(f"model must be a GPT of this book: got {type(model).__name__}; checkpoint others by hand.")
    if regions not in REGIONS:
        raise ValueError(f"regions must be one of {'; '.join(REGIONS)}: got regions={regions!r}.")
    L = len(model._modules["blocks"])
    if regions not in ("every k-th block", "k segments"):
        if k is not None:
            raise ValueError(f"k is for every k-th block and k segments: got k={k!r} with regions={regions!r}.")
        return
    if k is None:
        raise ValueError(f"regions={regions!r} needs k: got none; try k={max(1, round(sqrt(L)))}.")
    check_positive(k=k)
    if k > L:
        raise ValueError(f"k may be the number of blocks at most: got k={k}, and the model has {L}.")


@dataclass(frozen=True)
class _Segment:
    """Blocks that run one after the other as one checkpointed region."""

    blocks: nn.Module
    run: Callable

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(self.blocks, x)


def _regions(blocks: list[nn.Module], regions: str, k: int | None, run: Callable) -> list[Callable]:
    """What a model runs in place of its blocks."""
    L = len(blocks)
    if regions == "every k-th block":
        return [_Segment(block, run) if i % k == 0 else block for i, block in enumerate(blocks)]
    if regions == "every block":
        return [_Segment(block, run) for block in blocks]
    n = k or round(sqrt(L))
    size, n_longer = divmod(L, n)
    ends = [i * size + min(i, n_longer) for i in range(n + 1)]
    return [_Segment(nn.Sequential(*blocks[first:last]), run) for first, last in pairwise(ends)]


def _checkpoint_core(attention: Attention, run: Callable) -> None:
    """Attention's forward calls `_sdpa` unless its kind is "explicit": the instance gets its own of both names."""
    core = partial(_explicit_core, attention) if attention.kind == "explicit" else attention._sdpa
    attention.__dict__["_kind"] = attention.kind
    attention.kind = "sdpa"
    attention.__dict__["_sdpa"] = partial(run, core)


def _explicit_core(attention: Attention, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return attention._weights(q, k) @ v


def _restore(model: GPT) -> None:
    model.__dict__.pop("blocks", None)
    for block in model.blocks:
        own = block.attention.__dict__
        if "_kind" in own:
            own["kind"] = own.pop("_kind")
            del own["_sdpa"]

"""Which regions of a GPT run through a checkpoint: blocks, segments of several blocks, or attention's core alone."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from math import sqrt
from typing import Any

import torch
import torch.utils.checkpoint
from torch import nn

from utils.layers import Attention, Block, Run, check_positive

from .checkpointing import checkpoint
from .gpt import GPT, Model, blocks_of

REGIONS = ("none", "every block", "every k-th block", "k segments", "sqrt(L) segments", "attention only")
WITH_K = ("every k-th block", "k segments")

library_checkpoint = partial(torch.utils.checkpoint.checkpoint, use_reentrant=False)
"""PyTorch's own checkpoint, in the form that it recommends."""


def set_regions(model: Model, regions: str, *, k: int | None = None, run: Run = checkpoint) -> Model:
    """Make a GPT run these regions through a checkpoint from now on, and return it; "none" undoes that.

    "every k-th block" takes the first of each k blocks, and "k segments" runs of consecutive blocks, as equal in length
    as possible, longer ones first; "sqrt(L) segments" has k = sqrt(L), rounded. "attention only" is the core of
    attention from q, k and v to y: scores, mask, softmax, its dropout and the product with v, or PyTorch's kernel for
    all of these. `run(function, *args)` runs a region: this book's `checkpoint`, or `library_checkpoint`.

    A Block by itself can have "attention only". Code, parameters, `state_dict()` and the names of modules don't change.
    While regions are set, `model.blocks` gives regions.

    Raises: TypeError for a model that is neither a GPT nor a Block; ValueError for unknown regions, for any other
            region of a Block, and for a k that is missing, not asked for, not positive or more than the blocks.
    Source: "attention only" is the selective recomputation of Korthikanti et al. 2022, section 5; sqrt(L) segments
            are Chen et al. 2016, section 4.
    """
    if not isinstance(model, GPT | Block):
        what = type(model).__name__
        raise TypeError(f"model must be a GPT or a Block of this book: got {what}; checkpoint others by hand.")
    blocks = _blocks_of(model)
    lengths = region_lengths(regions, L=len(blocks), k=k)
    if isinstance(model, Block) and regions not in ("none", "attention only"):
        raise ValueError(f"a Block has one region, its attention: got {regions=}; try 'attention only'.")
    _restore(model)
    if regions == "attention only":
        for block in blocks:
            checkpoint_core(block.attention, run)
    elif regions != "none":
        # The instance's own attribute is found before its submodule of the same name, which stays where it is.
        model.__dict__["blocks"] = _regions(blocks, lengths, k if k and regions == "every k-th block" else 1, run)
    return model


@contextmanager
def checkpointed(model: Model, regions: str, *, k: int | None = None, run: Run = checkpoint) -> Iterator[Model]:
    """`set_regions` for the time of a `with` block; then the regions are again what they were. Backward may come later.

    Raises: as `set_regions`.
    """
    before = _own_names(model) if isinstance(model, GPT | Block) else []
    set_regions(model, regions, k=k, run=run)
    try:
        yield model
    finally:
        _restore(model)
        for own, values in before:
            own.update(values)


def region_lengths(regions: str, *, L: int, k: int | None = None) -> list[int]:
    """How many of L blocks each region has, in order; a region of "attention only" is no whole block: 0.

    Raises: ValueError as `set_regions`.
    """
    if regions not in REGIONS:
        raise ValueError(f"regions must be one of {'; '.join(REGIONS)}: got regions={regions!r}.")
    if regions not in WITH_K and k is not None:
        raise ValueError(f"k is for {' and '.join(WITH_K)}: got k={k!r} with regions={regions!r}.")
    if regions in WITH_K:
        _check_k(regions, k, L)
    if regions in ("none", "attention only"):
        return [0] * (L if regions == "attention only" else 0)
    if regions in ("every block", "every k-th block"):
        return [1] * len(range(0, L, k or 1))
    size, n_longer = divmod(L, n := k or round(sqrt(L)))
    return [size + (i < n_longer) for i in range(n)]


def _check_k(regions: str, k: int | None, L: int) -> None:
    if k is None:
        raise ValueError(f"regions={regions!r} needs k: got none; try k={max(1, round(sqrt(L)))}.")
    check_positive(k=k)
    if k > L:
        raise ValueError(f"k may be the number of blocks at most: got k={k}, and the model has {L}.")


@dataclass(frozen=True)
class _Segment:
    """Blocks that run one after the other as one checkpointed region."""

    blocks: nn.Module
    run: Run

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(self.blocks, x)


def _regions(
    blocks: Sequence[nn.Module], lengths: list[int], every: int, run: Run
) -> list[Callable[[torch.Tensor], torch.Tensor]]:
    """What a model runs in place of its blocks."""
    if lengths == [1] * len(lengths):
        return [block if i % every else _Segment(block, run) for i, block in enumerate(blocks)]
    ends = [0, *accumulate(lengths)]
    return [_Segment(nn.Sequential(*blocks[first:last]), run) for first, last in pairwise(ends)]


def checkpoint_core(attention: Attention, run: Run) -> None:
    """Have one layer of attention run its core through a checkpoint: "attention only" of `set_regions`.

    The instance gets a `_core` of its own, from which y alone comes: explicit weights stay inside of the region.
    """
    attention.__dict__["_core"] = partial(_y_alone, run, partial(_core, attention))


def _y_alone(run: Run, core: Callable[..., torch.Tensor], *qkv: torch.Tensor) -> tuple[torch.Tensor]:
    return (run(core, *qkv),)


def _core(attention: Attention, *qkv: torch.Tensor) -> torch.Tensor:
    return type(attention)._core(attention, *qkv)[-1]


def _blocks_of(model: GPT | Block) -> list[Block]:
    return [model] if isinstance(model, Block) else blocks_of(model)


def _own_names(model: GPT | Block) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What `set_regions` may have changed, and to what: the attributes of a model and of its layers of attention."""
    changed: list[tuple[dict[str, Any], tuple[str, ...]]] = [(model.__dict__, ("blocks",))]
    changed += [(block.attention.__dict__, ("_core",)) for block in _blocks_of(model)]
    return [(own, {name: own[name] for name in names if name in own}) for own, names in changed]


def _restore(model: GPT | Block) -> None:
    model.__dict__.pop("blocks", None)
    for block in _blocks_of(model):
        block.attention.__dict__.pop("_core", None)

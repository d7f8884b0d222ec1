"""Operations whose result is as large as values say: the values are known, or the operation is refused (dispatch/)."""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from every_byte.gpu.known.reading import known_values
from every_byte.gpu.memory.modes import attached

from .launch import cub
from .launch.units import INDEX_BYTES, div_up
from .registry import Call, Held, allocates, contiguous_copies, decomposed, returns

aten = torch.ops.aten
COUNT_BYTES = 4
STATIC_TILE = 512 * 16
MASKS = (torch.bool, torch.uint8)
_Placed = TypeVar("_Placed")


def n_selected(x: Tensor) -> int:
    """How many elements are other than 0: by what is known; while a tensor is printed, none of those that are not."""
    values = known_values(x) if x.is_meta else x
    return 0 if values is None else int(values.count_nonzero())


def positions_of(x: Tensor) -> Tensor:
    """What `nonzero` returns: a row for each element that is other than 0, laid out by dimensions."""
    return torch.empty((x.dim(), n_selected(x)), dtype=torch.int64, device="meta").t()


def select(call: Call, x: Tensor, place: Callable[[], _Placed]) -> _Placed:
    """Positions of what is other than 0: counted, and then, in the block that `place` takes for them, written.

    Source: nonzero_cuda_out_impl in aten/src/ATen/native/cuda/Nonzero.cu.
    """
    spec = call.memory.spec
    copies = call.hold(*contiguous_copies(x))
    (count,) = call.hold(COUNT_BYTES)
    call.allocate_and_free(cub.count(x.numel(), spec))
    placed = place()
    if x.dim():
        call.allocate_and_free(cub.select_flagged(x.numel(), spec))
    call.let_go(count)
    for copy in copies:
        call.let_go(copy)
    return placed


@returns(aten.index.Tensor)
def _index(x: Tensor, indices: list[Tensor | None]) -> Tensor:
    """A mask on the GPU stands for the positions where it is true."""
    if not any(i is not None and i.is_meta and i.dtype in MASKS for i in indices):
        result: Tensor = aten.index.Tensor(x, indices)
        return result
    lists: list[Tensor | None] = []
    for i in indices:
        if i is not None and i.is_meta and i.dtype in MASKS:
            lists += positions_of(i).unbind(1)
        else:
            lists.append(i)
    result = aten.index.Tensor(x, lists)
    return result


def is_fill(
    x: Tensor, indices: Iterable[Tensor | None], values: Tensor | None = None, accumulate: bool = False, *rest: Any
) -> bool:
    """Whether one number is put where one mask on the GPU is true: then CUDA fills."""
    given = [i for i in indices if i is not None]
    if values is None or accumulate:
        return False
    is_mask = len(given) == 1 and given[0].dtype in MASKS and given[0].is_meta
    return is_mask and values.numel() == 1 and not values.is_meta


def split_masks(call: Call, indices: Iterable[Tensor | None]) -> tuple[list[Tensor | None], list[Held | None]]:
    """The indices, with a list of positions for each dimension of a mask; and what those take that lie on the GPU."""
    lists: list[Tensor | None] = []
    blocks: list[Held | None] = []
    for i in indices:
        if i is None or i.dtype not in MASKS:
            lists.append(i)
        elif i.is_meta:
            positions = positions_of(i)
            lists += positions.unbind(1)
            blocks += select(call, i, partial(call.hold, positions.nbytes))
        else:
            lists += [torch.empty(n_selected(i), dtype=torch.int64)] * i.dim()
    return lists, blocks


returns(aten.nonzero.default)(positions_of)


@allocates(aten.nonzero.default)
def nonzero(call: Call) -> None:
    """The result, between what its count and what its selection take."""
    select(call, call.args[0], call.place_all)


@allocates(aten.nonzero_static.default)
def nonzero_static(call: Call) -> None:
    """The result; a count for each thread block, and their running sum, of 64 bits.

    Source: nonzero_static_cuda_out_impl in aten/src/ATen/native/cuda/Nonzero.cu.
    """
    call.place_all()
    n = call.args[0].numel()
    if n and call.result.numel():
        tiles = div_up(n, STATIC_TILE)
        tiles_of_a_block = div_up(tiles, min(tiles, call.memory.spec.multiprocessors))
        blocks = div_up(tiles, tiles_of_a_block)
        call.hold(*contiguous_copies(call.args[0]))
        call.allocate_and_free(blocks * COUNT_BYTES, blocks * INDEX_BYTES)


@returns(aten.masked_select.default)
def _masked_select(x: Tensor, mask: Tensor) -> Tensor:
    return x.new_empty(n_selected(mask.expand(torch.broadcast_shapes(x.shape, mask.shape))))


@allocates(aten.masked_select.default)
def masked_select(call: Call) -> None:
    """The mask, expanded, is an index. Source: masked_select_out_cuda_impl in native/cuda/IndexKernel.cpp."""
    x, mask = call.args
    mask = mask.expand(torch.broadcast_shapes(x.shape, mask.shape))
    mask = mask if mask.dim() else mask.unsqueeze(0)
    select(call, mask, lambda: call.hold(n_selected(mask) * mask.dim() * INDEX_BYTES))
    call.place_all()


@allocates(aten.masked_scatter.default, aten.masked_scatter_.default)
def masked_scatter(call: Call) -> None:
    """Where each element of the source goes is a running sum of the mask. Source: masked_scatter in IndexKernel.cu."""
    x, mask, source = call.args
    call.place_all()
    call.hold(call.result.numel() * INDEX_BYTES, *contiguous_copies(mask.expand_as(call.result)))
    call.allocate_and_free(cub.running_sum(call.result.numel(), INDEX_BYTES, call.memory.spec))
    call.hold(*contiguous_copies(source))


@decomposed(aten.masked_scatter_backward.default)
def _masked_scatter_backward(gradient: Tensor, mask: Tensor, shape: list[int]) -> Tensor:
    """What the mask selects, and zeros for what was not needed of the source.

    Source: masked_scatter_backward_symint in aten/src/ATen/native/TensorAdvancedIndexing.cpp.
    """
    if known_values(mask) is None:
        attached()[-1].not_modelled("aten::masked_scatter_backward of a mask that is computed")
        return gradient.new_empty(shape)
    selected = gradient.masked_select(mask)
    missing = math.prod(shape) - selected.numel()
    if missing > 0:
        selected = torch.cat([selected, gradient.new_zeros(missing)])
    return selected.view(shape)

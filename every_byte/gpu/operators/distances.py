"""Distances between vectors, places among sorted numbers, counts in bins, and grids that say where to sample."""

import torch
from torch import Tensor

from .launch.memory_formats import copies_in
from .registry import (
    Call,
    allocates,
    as_pytorch_does,
    composite,
    contiguous_copies,
    decomposed,
    outputs_alone,
    resized,
    returns,
)

aten = torch.ops.aten
MOST_CHANNELS = 1024

outputs_alone("""grid_sampler_2d grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward
    addr linalg_cross""")
resized(aten._pdist_forward.default)

# ----------------------------------------------------------------------------------------------------------- distances


@decomposed(aten._euclidean_dist.default)
def _euclidean_dist(x: Tensor, y: Tensor) -> Tensor:
    """One product of matrices: of -2x, its squared norm and ones with y, ones and its squared norm.

    Source: _euclidean_dist in aten/src/ATen/native/Distance.cpp.
    """
    x_norm, x_ones = _norm_and_ones(x)
    y_norm, y_ones = _norm_and_ones(y)
    doubled = x.mul(-2)
    left = torch.cat([doubled, x_norm, x_ones], -1)
    del doubled, x_norm, x_ones
    right = torch.cat([y, y_ones, y_norm], -1)
    del y_norm, y_ones
    return left.matmul(right.mT).clamp_min_(0).sqrt_()


def _norm_and_ones(x: Tensor) -> tuple[Tensor, Tensor]:
    squares = x.pow(2)
    norm = squares.sum(-1, True)
    del squares
    return norm, torch.ones_like(norm, memory_format=torch.contiguous_format)


@decomposed(aten.dist.default)
def _dist(x: Tensor, y: Tensor, p: float = 2) -> Tensor:
    """The norm of the difference. Source: as above."""
    result: Tensor = torch.ops.aten.norm.Scalar(x - y, p)
    return result


def _of_one_batch(*sets: Tensor) -> list[Tensor]:
    """Sets of vectors, expanded to the batch that they have in common."""
    batch = torch.broadcast_shapes(*(x.shape[:-2] for x in sets))
    return [x.expand(*batch, *x.shape[-2:]) for x in sets]


@allocates(aten._cdist_forward.default)
def cdist(call: Call) -> None:
    """Contiguous copies of what is expanded to a common batch; the distances. Source: cdist_impl in Distance.cpp."""
    call.hold(*contiguous_copies(*_of_one_batch(*call.args[:2])))
    call.place_all()


@allocates(aten._cdist_backward.default)
def cdist_backward(call: Call) -> None:
    """As above, then the gradient, and what each pair of vectors adds to it, but for p of 0, whose gradient is 0.

    Source: _cdist_backward in aten/src/ATen/native/Distance.cpp; cdist_backward_kernel_impl in cuda/DistanceKernel.cu.
    """
    gradient, *sets, p, distances = call.args
    x, y = _of_one_batch(*sets)
    if x.numel() == 0 or y.numel() == 0:
        call.place_all()
        return
    call.hold(*contiguous_copies(x, y, distances, gradient))
    call.place_all()
    if p:
        call.allocate_and_free(x.numel() * y.shape[-2] * x.element_size())


@allocates(aten._pdist_backward.default)
def pdist_backward(call: Call) -> None:
    """As above, of each pair of one list. Source: pdist_backward_kernel_impl in cuda/DistanceKernel.cu."""
    x, p = call.args[1:3]
    call.place_all()
    if p:
        call.allocate_and_free((len(x) - 1) * x.numel() * x.element_size())


# -------------------------------------------------------------------------------------------------- places, bins, grids


@allocates(aten.searchsorted.Tensor)
def searchsorted(call: Call) -> None:
    """The places; contiguous copies of the numbers that are looked up and of the sorted ones.

    Source: searchsorted_maybe_trim_input_tensors in aten/src/ATen/native/BucketizationUtils.h.
    """
    _look_up(call, call.args[1], call.args[0], call.kwargs.get("sorter"))


@allocates(aten.bucketize.Tensor)
def bucketize(call: Call) -> None:
    """As above."""
    x, boundaries = call.args[:2]
    _look_up(call, x, boundaries, None)


def _look_up(call: Call, x: Tensor, numbers: Tensor, sorter: Tensor | None) -> None:
    call.place_resized(call.result)
    call.hold(*copies_in(torch.contiguous_format, x, numbers, sorter))
    common = torch.result_type(x, numbers)
    call.hold(*(y.numel() * common.itemsize for y in (x, numbers) if y.dtype != common))


@composite(aten.grid_sampler.default)
def _grid_sampler(x: Tensor, grid: Tensor, interpolation: int, padding: int, align_corners: bool) -> Tensor:
    """By cuDNN what it knows; it works in no memory that PyTorch would give it.

    Source: grid_sampler and cond_cudnn_grid_sampler in aten/src/ATen/native/GridSampler.cpp and GridSamplerUtils.h.
    """
    is_bilinear = interpolation == padding == 0 and align_corners
    if is_bilinear and x.dim() == grid.dim() == 4 and x.shape[1] <= MOST_CHANNELS and _is_for_cudnn(x, grid):
        result: Tensor = aten.cudnn_grid_sampler.default(x, grid)
        return result
    result = as_pytorch_does(aten.grid_sampler.default, x, grid, interpolation, padding, align_corners)
    return result


def _is_for_cudnn(*tensors: Tensor) -> bool:
    """Source: cudnn_is_acceptable in aten/src/ATen/native/Convolution.cpp; canUse32BitIndexMath."""
    known = torch.float16, torch.float32, torch.float64
    fits = all(x.dtype in known and 0 < x.numel() < 2**31 for x in tensors)
    return fits and torch.backends.cudnn.enabled


@returns(aten.cudnn_grid_sampler.default)
def _cudnn_grid_sampler(x: Tensor, grid: Tensor) -> Tensor:
    return x.new_empty((*x.shape[:2], *grid.shape[1:3]))


@returns(aten.cudnn_grid_sampler_backward.default)
def _cudnn_grid_sampler_backward(x: Tensor, grid: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(grid.shape)


@allocates(aten.cudnn_grid_sampler.default, aten.cudnn_grid_sampler_backward.default)
def cudnn_grid_sampler(call: Call) -> None:
    """Contiguous copies of what is expanded; the results. Source: aten/src/ATen/native/cudnn/GridSampler.cpp."""
    call.hold(*contiguous_copies(*(x for x in call.args if 0 in x.stride())))
    call.place_resized(*(call.result if isinstance(call.result, tuple) else [call.result]))


@decomposed(aten.affine_grid_generator.default)
def _affine_grid(theta: Tensor, size: list[int], align_corners: bool) -> Tensor:
    """Each place's coordinates and a one, times the matrix. Source: AffineGridGenerator.cpp in aten/src/ATen/native."""
    n, _, *lengths = size
    n_dims = len(lengths)
    base = theta.new_empty((n, *lengths, n_dims + 1))
    for dim, length in enumerate(reversed(lengths)):
        steps = _steps(theta, length, align_corners)
        base.select(-1, dim).copy_(steps.view(-1, *(1 for _ in range(dim))))
        del steps
    base.select(-1, n_dims).fill_(1)
    grid = base.view(n, -1, n_dims + 1).bmm(theta.transpose(1, 2))
    return grid.view(n, *lengths, n_dims)


def _steps(theta: Tensor, n: int, align_corners: bool) -> Tensor:
    """From -1 to 1, to the corners' middles or to their edges. Source: linspace_from_neg_one."""
    if n <= 1:
        return theta.new_zeros(())
    steps = torch.linspace(-1, 1, n, dtype=theta.dtype, device=theta.device)
    if align_corners:
        return steps
    wider = steps * (n - 1)
    scaled = wider / n
    del steps, wider
    return scaled

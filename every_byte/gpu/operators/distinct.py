"""Distinct values, how often each comes, and repetitions: results as large as known values say."""

import torch

from every_byte.gpu.known.evaluation import on_the_cpu
from every_byte.gpu.known.reading import known_values

from .registry import returns

aten = torch.ops.aten


def _known(operator: torch._ops.OpOverload):
    """What is returned: tensors as large as on the CPU, where the values are."""

    def kernel(x: torch.Tensor, *args, **kwargs):
        with on_the_cpu():
            results = operator(known_values(x), *args, **kwargs)
        return tuple(torch.empty_like(result, device="meta") for result in results)

    return kernel


for _operator in (
    aten._unique.default,
    aten._unique2.default,
    aten.unique_consecutive.default,
    aten.unique_dim.default,
):
    returns(_operator)(_known(_operator))


@returns(aten.bincount.default)
def _bincount(x: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0) -> torch.Tensor:
    """A bin for each number up to the largest; weights are added up in their type, or in float64."""
    n_bins = max(int(known_values(x).max()) + 1 if x.numel() else 0, minlength)
    dtype = torch.int64 if weights is None else weights.dtype if weights.dtype is torch.float32 else torch.float64
    return x.new_empty(n_bins, dtype=dtype)


@returns(aten.repeat_interleave.Tensor)
def _repeat_interleave(repeats: torch.Tensor, *, output_size: int | None = None) -> torch.Tensor:
    """Which element stands at each place."""
    return repeats.new_empty(int(known_values(repeats).sum()) if output_size is None else output_size)

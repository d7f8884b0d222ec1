"""What a deterministic run refuses: operators whose kernels add up in any order, and have no other way."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch._prims_common import alert_not_deterministic

from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.records import RECORDS

from .launch.units import must_repeat
from .registry import repeated

aten = torch.ops.aten


def _always(*_args: Any, **_kwargs: Any) -> bool:
    return True


def _refused(
    name: str, *operators: OpOverload, if_: Callable[..., bool] = _always, after_results: bool = False
) -> None:
    """CUDA refuses these operators under this name; some have allocated their results by then.

    Source: alertNotDeterministic in the operators' files of aten/src/ATen/native/cuda; where the check comes first,
        nothing is allocated, but where PyTorch generates what makes the results, they are there.
    """

    def refuse(func: OpOverload, *args: Any, **kwargs: Any) -> Any:
        if if_(*args, **kwargs):
            if after_results and must_repeat():
                _make(func, *args, **kwargs)
            alert_not_deterministic(name)
        return NotImplemented

    repeated(*operators)(refuse)


def _make(func: OpOverload, *args: Any, **kwargs: Any) -> None:
    """Allocate the results, and free them."""
    with torch._C._DisableTorchDispatch():
        results = func(*args, **kwargs)
    results = [results] if isinstance(results, Tensor) else results
    new = [x for x in results if x is not None and x.untyped_storage()._cdata not in RECORDS]
    attached()[-1].memory.allocate_and_free(*(x.nbytes for x in new))


def _is_reduced(x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, *_: Any) -> bool:
    return reduction != 0


def _is_floating(x: Tensor, *_: Any, **__: Any) -> bool:
    return x.dtype.is_floating_point


def _has_weights(x: Tensor, weights: Tensor | None = None, *_: Any, **__: Any) -> bool:
    return weights is not None


_refused("median CUDA with indices output", aten.median.dim, aten.nanmedian.dim)
_refused("nll_loss2d_forward_out_cuda_template", aten.nll_loss2d_forward.default, if_=_is_reduced)
_refused("_histc_cuda with floating point input", aten.histc.default, if_=_is_floating)
_refused("_bincount_cuda", aten.bincount.default, if_=_has_weights)
_refused("put_", aten.put_.default)
_refused("cudnn_grid_sampler_backward", aten.cudnn_grid_sampler_backward.default)
_refused("put_", aten.put.default, after_results=True)
_refused("index_reduce_cuda", aten.index_reduce.default, aten.index_reduce_.default, after_results=True)
_refused("max_unpooling2d_forward_out", aten.max_unpool2d.default)
_refused("max_unpooling3d_forward_out", aten.max_unpool3d.default)

_refused("adaptive_avg_pool2d_backward_cuda", aten._adaptive_avg_pool2d_backward.default)
_refused("adaptive_avg_pool3d_backward_cuda", aten._adaptive_avg_pool3d_backward.default)
_refused("adaptive_max_pool2d_backward_cuda", aten.adaptive_max_pool2d_backward.default, after_results=True)
_refused("avg_pool3d_backward_cuda", aten.avg_pool3d_backward.default, after_results=True)
_refused("fractional_max_pool2d_backward_cuda", aten.fractional_max_pool2d_backward.default, after_results=True)
_refused("fractional_max_pool3d_backward_cuda", aten.fractional_max_pool3d_backward.default)
_refused("max_pool3d_with_indices_backward_cuda", aten.max_pool3d_with_indices_backward.default)
_refused("grid_sampler_2d_backward_cuda", aten.grid_sampler_2d_backward.default, after_results=True)
_refused("grid_sampler_3d_backward_cuda", aten.grid_sampler_3d_backward.default, after_results=True)
for _n in (1, 3):
    _operator = getattr(aten, f"reflection_pad{_n}d_backward").default
    _refused(f"reflection_pad{_n}d_backward_out_cuda", _operator, after_results=True)
for _n in (1, 2, 3):
    _operator = getattr(aten, f"replication_pad{_n}d_backward").default
    _refused(f"replication_pad{_n}d_backward_cuda", _operator, after_results=_n == 1)
for _name in (
    "upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d",
    "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
):  # fmt: skip
    _operator = getattr(aten, f"{_name}_backward").default
    _refused(f"{_name.removeprefix('_')}_backward_out_cuda", _operator, after_results=True)

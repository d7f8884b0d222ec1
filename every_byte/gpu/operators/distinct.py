"""Sets of values: distinct ones, how often each comes, repetitions, as many as known values say; and what is in one."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from every_byte.gpu.known.evaluation import on_the_cpu
from every_byte.gpu.known.noting import note
from every_byte.gpu.known.reading import known_values, read
from every_byte.gpu.memory.modes import attached

from .launch import cub
from .launch.units import INDEX_BYTES
from .reductions import reduce
from .registry import Call, Number, allocates, contiguous_copies, decomposed, returns

aten = torch.ops.aten


def _values(x: Tensor) -> Tensor:
    values = known_values(x)
    assert values is not None, "dispatch/values.py refuses what is not known"
    return values


def _known(operator: OpOverload) -> Callable[..., tuple[Tensor, ...]]:
    """What is returned: tensors as large as on the CPU, where the values are."""

    def kernel(x: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        with on_the_cpu():
            results = operator(_values(x), *args, **kwargs)
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
def _bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """A bin for each number up to the largest; weights are added up in their type, or in float64."""
    n_bins = max(int(_values(x).max()) + 1 if x.numel() else 0, minlength)
    dtype = torch.int64 if weights is None else weights.dtype if weights.dtype is torch.float32 else torch.float64
    return x.new_empty(n_bins, dtype=dtype)


@allocates(aten.bincount.default)
def bincount(call: Call) -> None:
    """The least and the largest number, which are read, weights of no floating type but float32's, and the bins.

    Source: _bincount_cuda_template in aten/src/ATen/native/cuda/SummaryOps.cu.
    """
    x, weights = call.args[0], call.argument(1, "weights")
    size = x.element_size()
    if weights is not None and weights.dtype not in (torch.float32, torch.float64):
        call.hold(weights.numel() * 8)
    if x.numel() and call.memory.spec.rules.extremes_are_found_apart:
        for _ in range(2):
            with call.scope():
                _find(call, x, size)
    elif x.numel():
        _find(call, x, size, size)
    call.place_all()


def _find(call: Call, x: Tensor, *extremes: int) -> None:
    """Take so many extremes of these sizes, and what is needed to find them at once."""
    call.hold(*extremes)
    with call.scope():
        call.hold(*contiguous_copies(x))
        reduce(call, x.contiguous(), {0}, x.element_size(), sum(extremes))


@returns(aten.repeat_interleave.Tensor)
def _repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    """Which element stands at each place."""
    return repeats.new_empty(int(_values(repeats).sum()) if output_size is None else output_size)


@allocates(aten.repeat_interleave.Tensor)
def repeat_interleave(call: Call) -> None:
    """A running sum of the repeats, whose last one is read as is whether one is negative; then the result.

    Source: repeat_interleave_common in aten/src/ATen/native/Repeat.h.
    """
    repeats, n = call.args[0], call.args[0].numel()
    if n:
        call.hold(*contiguous_copies(repeats), n * INDEX_BYTES)
        copies = [n * INDEX_BYTES] if repeats.dtype is not torch.int64 or not repeats.is_contiguous() else []
        call.allocate_and_free(*copies, cub.running_sum(n, INDEX_BYTES, call.memory.spec))
        if call.kwargs.get("output_size") is None:
            with call.scope():
                if call.memory.spec.rules.repeats_have_a_least:
                    call.hold(repeats.element_size())
                    reduce(call, repeats, {0}, repeats.element_size(), repeats.element_size())
                else:
                    call.hold(n, 1)
                    reduce(call, torch.empty(n, dtype=torch.bool, device="meta"), {0}, 1, 1)
    call.place_all()


@decomposed(aten.allclose.default)
def _allclose(x: Tensor, y: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all numbers are close; where that is not known they are, as those of `torch.equal` are alike.

    Source: allclose in aten/src/ATen/native/TensorCompare.cpp.
    """
    values, is_known = read(torch.isclose(x, y, rtol, atol, equal_nan).all())
    if not is_known:
        attached()[-1].tell_unknown("aten::allclose", "is taken to hold")
    return bool(values) if is_known else True


@decomposed(aten.isin.Tensor_Scalar)
def _is_number(elements: Tensor, number: Number, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    return elements.ne(number) if invert else elements.eq(number)


@decomposed(aten.isin.Tensor_Tensor)
def _isin(elements: Tensor, tests: Tensor, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Each element is compared with each of a few; for many they are sorted, which is not known.

    Source: isin_Tensor_Tensor_out in native/TensorCompare.cpp, isin_default_kernel_gpu in its namesake in cuda.
    """
    result = elements.new_empty(elements.shape, dtype=torch.bool)
    if elements.numel() == 0:
        return result
    if tests.numel() >= int(10 * elements.numel() ** 0.145):
        attached()[-1].not_modelled("aten::isin of many")
        note(aten.isin.Tensor_Tensor, (elements, tests), {"invert": invert}, result, True)
        return result
    tests = tests.view([1] * elements.dim() + [-1])
    elements = elements.unsqueeze(-1)
    result.copy_(elements.ne(tests).all(-1) if invert else elements.eq(tests).any(-1))
    return result

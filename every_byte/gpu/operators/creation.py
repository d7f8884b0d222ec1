"""Operators that make tensors: filled, drawn at random, joined of others; and those that move elements about."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from every_byte.gpu.memory.modes import attached

from .launch import cub
from .launch.tensor_iterator import dense_strides
from .launch.units import HALF, INDEX_BYTES
from .registry import Call, Number, allocates, decomposed, outputs_alone, resized, returns

aten = torch.ops.aten

outputs_alone("""empty empty_like empty_strided new_empty new_empty_strided zeros ones full zeros_like ones_like
    full_like new_zeros new_ones new_full rand randn randint rand_like randn_like randint_like arange scalar_tensor
    linspace logspace fill_ zero_ clone normal_ uniform_ bernoulli_ exponential_ random_ cauchy_ geometric_
    log_normal_ detach lift_fresh _unsafe_view _local_scalar_dense _assert_async is_same_size
    _has_same_storage_numel""")
outputs_alone("""cat stack tril triu tril_ triu_ flip repeat constant_pad_nd slice_backward select_backward
    diagonal_backward narrow_copy put_ select_scatter slice_scatter pixel_shuffle pixel_unshuffle""")
resized(aten.eye.default, aten.eye.m)


@returns(aten.normal_.default)
def _normal_(x: Tensor, mean: float = 0.0, std: float = 1.0, **options: Any) -> Tensor:
    """The tensor itself."""
    if x.dtype.is_floating_point and std >= 0:
        return x
    result: Tensor = aten.normal_.default(x, mean, std, **options)
    return result


def _triangle_(operator: OpOverload) -> Callable[..., Tensor]:
    def kernel(x: Tensor, diagonal: int = 0) -> Tensor:
        """The tensor itself."""
        return x if x.dim() >= 2 else operator(x, diagonal)

    return kernel


returns(aten.tril_.default)(_triangle_(aten.tril_.default))
returns(aten.triu_.default)(_triangle_(aten.triu_.default))


@allocates(aten.bernoulli_.Tensor)
def draws_of_tensor(call: Call) -> None:
    """Probabilities of a half type are read in float32. Source: bernoulli_tensor_kernel, DistributionTemplates.h."""
    probabilities = call.args[1]
    if probabilities.dtype in HALF:
        call.allocate_and_free(probabilities.numel() * 4)


@allocates(aten.normal.Tensor_float)
def draws_around_tensor(call: Call) -> None:
    """The result, and beside it another that is asked for its shape alone.

    Source: normal_out_impl in aten/src/ATen/native/DistributionTemplates.h.
    """
    call.place_all()
    call.allocate_and_free(call.args[0].numel() * call.result.element_size())


@decomposed(aten.normal.Tensor_Tensor, aten.normal.float_Tensor)
def _normal_by_deviations(mean: Tensor | float, std: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """The least of the standard deviations is looked at before the result is made, and again after.

    Source: CHECK_NORMAL_TENSOR_STD and normal_out_impl in aten/src/ATen/native/DistributionTemplates.h.
    """
    _look_at_least(std)
    if isinstance(mean, Tensor):
        drawn = torch.empty(torch.broadcast_shapes(mean.shape, std.shape), dtype=mean.dtype, device=std.device)
        _look_at_least(std)
    else:
        drawn = torch.empty_like(std, memory_format=torch.contiguous_format)
        _look_at_least(std)
        torch.full((), mean, dtype=std.dtype, device=std.device)
    return drawn


def _look_at_least(std: Tensor) -> None:
    if std.numel():
        least = std.min()
        least.ge(0)


def new_like(x: Tensor, dtype: torch.dtype) -> Tensor:
    """A new tensor that lies as this one does."""
    strides = x.stride() if x.is_contiguous() else dense_strides(x)
    if strides is None:
        return torch.empty_like(x, dtype=dtype)
    return torch.empty_strided(x.shape, strides, dtype=dtype, device="meta")


@returns(aten.empty_like.default)
def _empty_like(x: Tensor, **options: Any) -> Tensor:
    """With the strides of a tensor without gaps, those of dimensions of size 1 too."""
    if x.is_meta and x.layout == torch.strided:
        wishes = {name for name, wish in options.items() if wish not in (None, False, torch.preserve_format)}
        if not wishes:
            return new_like(x, x.dtype)
    result: Tensor = aten.empty_like.default(x, **options)
    return result


def _filled_like(operator: OpOverload) -> Callable[..., Tensor]:
    def kernel(x: Tensor, **options: Any) -> Tensor:
        """As `zeros_like` lies, in dimensions of size 1, too. Source: aten/src/ATen/native/TensorFactories.cpp."""
        wishes = {name for name, wish in options.items() if wish not in (None, False, torch.preserve_format)}
        can_be = operator is aten.ones_like.default or x.dtype.is_floating_point
        is_plain = can_be and not wishes and x.is_meta and x.layout == torch.strided
        return new_like(x, x.dtype) if is_plain else operator(x, **options)

    return kernel


for _operator in (aten.ones_like.default, aten.rand_like.default, aten.randn_like.default):
    returns(_operator)(_filled_like(_operator))


@returns(aten.zeros_like.default)
def _zeros_like(x: Tensor, **options: Any) -> Tensor:
    wishes = {name: wish for name, wish in options.items() if wish not in (None, False, torch.preserve_format)}
    if wishes.keys() <= {"dtype"} and x.is_meta and x.layout == torch.strided:
        return new_like(x, wishes.get("dtype", x.dtype))
    result: Tensor = aten.zeros_like.default(x, **options)
    return result


def check_value(value: Number, dtype: torch.dtype) -> None:
    """A number that fills is converted to the tensor's type; on meta PyTorch does not look whether it can be.

    Raises: RuntimeError for a finite number beyond the largest of that type.
    """
    if not dtype.is_floating_point or isinstance(value, complex):
        return
    most = torch.finfo(dtype).max
    if most < abs(value) != math.inf:
        way_out = "torch.inf or torch.finfo(x.dtype).max" if value > 0 else "-torch.inf or torch.finfo(x.dtype).min"
        raise RuntimeError(
            f"value must be a number of the tensor's type, or it overflows: got value={value:g} for {dtype}, whose "
            f"largest is {most:g}; take {way_out}."
        )


def check_filling(value: Number, result: Tensor, given: Tensor | None = None) -> Tensor:
    """The result, if the number fits its type; CUDA finds out with the result in hand, unless it is what was given."""
    try:
        check_value(value, result.dtype)
    except RuntimeError:
        if result is not given:
            attached()[-1].memory.allocate_and_free(result.untyped_storage().nbytes())
        raise
    return result


def _filling(operator: OpOverload, place: int) -> Callable[..., Tensor]:
    def kernel(*args: Any, **options: Any) -> Tensor:
        """PyTorch's own result, if its number, in this place, fits."""
        value = args[place] if len(args) > place else options.get(operator._schema.arguments[place].name, 0)
        return check_filling(value or 0, operator(*args, **options), args[0])

    return kernel


for _operator, _place in {
    **dict.fromkeys((aten.scalar_tensor.default,), 0),
    **dict.fromkeys((aten.fill_.Scalar, aten.full.default, aten.full_like.default), 1),
    **dict.fromkeys((aten.new_full.default, aten.constant_pad_nd.default), 2),
    **dict.fromkeys((aten.index_fill.int_Scalar, aten.index_fill_.int_Scalar), 3),
    **dict.fromkeys((aten.scatter.value, aten.scatter_.value), 3),
}.items():
    returns(_operator)(_filling(_operator, _place))


@returns(aten.cat.default)
def _cat(tensors: list[Tensor], dim: int = 0) -> Tensor:
    first = tensors[0] if tensors else None
    if first is None or not -first.dim() <= dim < first.dim() or _may_be_channels_last(first):
        result: Tensor = aten.cat.default(tensors, dim)
        return result
    if not all(x.dtype == first.dtype and x.dim() == first.dim() for x in tensors):
        result = aten.cat.default(tensors, dim)
        return result
    sizes = [list(x.shape) for x in tensors]
    lengths = [size.pop(dim) for size in sizes]
    if any(size != sizes[0] for size in sizes):
        result = aten.cat.default(tensors, dim)
        return result
    shape = list(first.shape)
    shape[dim] = sum(lengths)
    return first.new_empty(shape)


def _may_be_channels_last(x: Tensor) -> bool:
    """Whether it may be channels last; a result is only if all of its tensors are, and one that is not settles it."""
    return x.dim() > 3 and x.stride(1) <= x.stride(-1)


def _kaiser_window(n: int, periodic: bool = True, beta: float = 12.0, **options: Any) -> Tensor:
    """Positions first, then the window: of one more than asked for, where it is periodic.

    Source: kaiser_window in aten/src/ATen/native/TensorFactories.cpp.
    """
    if n <= 1:
        return torch.ones(n, **options)
    options["dtype"] = options.get("dtype") or torch.get_default_dtype()
    positions = torch.arange(n + periodic, **options)
    window = torch.empty_like(positions)
    del positions
    return window.narrow(0, 0, n) if periodic else window


decomposed(aten.kaiser_window.default, aten.kaiser_window.periodic, aten.kaiser_window.beta)(_kaiser_window)


@decomposed(aten.randperm.generator_out)
def _randperm(n: int, *, generator: torch.Generator | None = None, out: Tensor) -> Tensor:
    """A number that is tried for its type, positions, and random keys by which these are sorted, as wide as they must.

    Source: randperm_out_cuda in aten/src/ATen/native/cuda/Randperm.cu.
    """
    torch.full((), n, dtype=out.dtype, device=out.device)
    out.resize_(n)
    positions = torch.arange(n, dtype=out.dtype, device=out.device)
    if n:
        bits = min(64, math.ceil(math.log2(n - (6 * n * n + 1) / (math.log(0.9) * 12))))
        keys = positions.new_empty(n, dtype=torch.int32 if bits <= 32 else torch.int64)
        ordered = torch.empty_like(keys)
        if out.element_size() != INDEX_BYTES:
            attached()[-1].not_modelled(f"aten::randperm of {out.dtype}")
        memory = attached()[-1].memory
        memory.allocate_and_free(cub.sort_by_bits(n, keys.element_size(), bits, memory.spec))
        del ordered, keys
    return out


@decomposed(aten.multinomial.default)
def _multinomial(x: Tensor, n: int, replacement: bool = False, *, generator: torch.Generator | None = None) -> Tensor:
    """The probabilities are looked at; then each is divided by a random number, and the largest quotients win.

    Draws of several with replacement look for random numbers among running sums.
    Source: multinomial_out in aten/src/ATen/native/Distributions.cpp; multinomial_with_replacement_kernel_impl in
        cuda/MultinomialKernel.cu.
    """
    if not x.dtype.is_floating_point:
        raise RuntimeError(f"multinomial needs probabilities of a floating type: got {x.dtype}; try x.float().")
    rules = attached()[-1].memory.spec.rules
    drawn = x.new_empty(0, dtype=torch.int64).resize_((*x.shape[:-1], n))
    if replacement and n > 1:
        given, shares = (torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(2))
        sums = torch.cumsum(shares, -1, out=given) if rules.multinomial_sums_in_place else shares.cumsum(-1)
        del sums, shares, given
        return drawn
    looked_at = _looked_at(x, rules.extremes_are_found_apart)
    sums = x.sum(-1)
    zero = sums == 0
    none = zero.any() if x.dim() > 1 else zero
    del zero, sums
    torch.bitwise_not(none)
    quotients = torch.empty_like(x)
    if n == 1:
        torch.argmax(quotients, -1, keepdim=True, out=drawn)
    else:
        values = x.new_empty(drawn.shape)
        torch.topk(quotients, n, out=(values, drawn))
        del values
    del quotients, none, looked_at
    return drawn


def _looked_at(x: Tensor, looks_twice: bool) -> tuple[Tensor, ...]:
    """Whether all probabilities are finite and none is negative; behind it what lives as long."""
    if not looks_twice:
        least, largest = torch.aminmax(x)
        return (largest < torch.inf) & (least >= 0), least, largest
    largest = x.max()
    finite = largest < torch.inf
    least = x.min()
    positive = least >= 0
    valid = finite & positive
    del positive, least, finite, largest  # as C++ lets go of an expression's parts, the last first
    return (valid,)

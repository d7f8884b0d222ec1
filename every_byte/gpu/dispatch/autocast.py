"""CUDA's autocast on a simulated GPU: how operators cast their arguments, and the cache of cast weights.

A CPU build of PyTorch has CUDA's list of operators, but its kernels pass over tensors that are not CUDA's. While a
simulated GPU is open, kernels with the same rules (operators/autocast.py) stand in their place. PyTorch's own
`torch.autocast` turns them on and off.

Source: aten/src/ATen/autocast_mode.h and autocast_mode.cpp.
"""

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import torch
from torch._ops import OpOverload

from every_byte.gpu.memory.calls import Args, Kwargs
from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.physical import is_cuda, is_meta
from every_byte.gpu.memory.whose import is_traced, memory_of
from every_byte.gpu.operators.autocast import WITH_DTYPE, Policy, policies
from every_byte.gpu.operators.registry import Function, Number, overload

from .weight_cache import CACHE, is_weight

DTYPES = (torch.float16, torch.bfloat16)
KEY = torch._C.DispatchKey.AutocastCUDA
_WITHOUT = torch._C.DispatchKeySet(KEY)
_this_thread = threading.local()


def autocast(dtype: torch.dtype, enabled: bool = True, cache_enabled: bool | None = None) -> torch.autocast:
    """A context in which operators on the GPU, simulated or live, cast as CUDA's autocast has them do.

    Raises: ValueError for a dtype that is none of DTYPES.
    """
    if dtype not in DTYPES:
        raise ValueError(
            f"autocast's dtype must be torch.float16 or torch.bfloat16: got dtype={dtype!r}; for float32 throughout, "
            "leave autocast out."
        )
    return torch.autocast("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


# casts


def _is_eligible(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and bool(attached())
        and _lies_here(value)
        and value.dtype is not torch.float64
        and value.is_floating_point()
    )


def _lies_here(tensor: torch.Tensor) -> bool:
    """Whether a tensor lies on the open GPU: where that stands for "cuda", a meta tensor may be the program's own."""
    if is_traced(tensor):
        return True
    return is_meta(tensor) and (attached()[-1].memory.as_cuda is None or memory_of(tensor) is not None)


def _cast(value: Any, dtype: torch.dtype) -> Any:
    """An argument in `dtype`, if it is a floating-point tensor of the GPU, or a list with such; others as they are."""
    if isinstance(value, (list, tuple)):
        return [_cast(item, dtype) for item in value]
    if not _is_eligible(value) or value.dtype is dtype:
        return value
    return CACHE.copy_of(value, dtype) if is_weight(value, dtype) else value.to(dtype)


def _cast_all(args: Args, dtype: torch.dtype) -> list[Any]:
    """All arguments, the last one first: so the C++ compilers that PyTorch is built with evaluate them."""
    return [_cast(value, dtype) for value in reversed(args)][::-1]


@contextmanager
def _without_autocast() -> Iterator[None]:
    """What is called in it is below autocast: it casts nothing more."""
    outer, _this_thread.is_below = is_below(), True
    try:
        with torch._C._ExcludeDispatchKeyGuard(_WITHOUT):
            yield
    finally:
        _this_thread.is_below = outer


def is_below() -> bool:
    """Whether this thread runs an operator whose arguments autocast has dealt with."""
    return getattr(_this_thread, "is_below", False)


@contextmanager
def as_called() -> Iterator[None]:
    """Autocast as where the operator was called that a dispatch mode takes apart: PyTorch turns it off for a mode.

    An operator that autocast does not know may call others that it does, from its host code, and CUDA's casts there.
    """
    with torch._C._RestorePythonTLSSnapshot():  # type: ignore[attr-defined]  # PyTorch's stubs lack it
        is_on = torch.is_autocast_enabled("cuda")
    if not is_on or is_below():
        yield
        return
    with torch._C._SetExcludeDispatchKeyGuard(KEY, False):
        yield


def _below(operator: OpOverload, args: list[Any], kwargs: Kwargs) -> Any:
    """Call an operator without autocast. An error must not hold the copies: C++ has dropped them by then."""
    with _without_autocast():
        try:
            return operator(*args, **kwargs)
        except Exception as error:
            del args
            raise error.with_traceback(None) from None


# policies: each function makes the kernel of an operator


def _in_lower_precision(operator: OpOverload) -> Function:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return _below(operator, _cast_all(args, torch.get_autocast_dtype("cuda")), kwargs)

    return kernel


def _in_float32(operator: OpOverload) -> Function:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return _below(operator, _cast_all(args, torch.float32), kwargs)

    return kernel


def _to_float32(operator: OpOverload) -> Function:
    """The operator reads what it is given and makes its result float32, unless the caller asks for another type."""
    names = [argument.name for argument in operator._schema.arguments if not argument.kwarg_only]
    place = names.index("dtype") if "dtype" in names else None

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if _is_eligible(args[0]):
            given = args[place] if place is not None and len(args) > place else kwargs.get("dtype")
            if given is None:
                args = args if place is None else args[:place]
                kwargs = kwargs | {"dtype": torch.float32}
        with _without_autocast():
            return operator(*args, **kwargs)

    return kernel


def _by_other_overload(operator: OpOverload) -> Function:
    """A norm whose overload has no result type goes to the overload that has one."""
    variant = WITH_DTYPE[operator.name().removeprefix("aten::")]
    with_dtype = getattr(operator.overloadpacket, variant)

    def kernel(x: torch.Tensor, p: Number = 2, *rest: Any) -> Any:
        dtype = torch.float32 if _is_eligible(x) else x.dtype
        rest = (*rest, False) if variant == "ScalarOpt_dim_dtype" and len(rest) == 1 else rest
        with _without_autocast():
            return with_dtype(x, p, *rest, dtype=dtype)

    return kernel


def _in_widest(operator: OpOverload) -> Function:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return _below(operator, _cast_all(args, _widest(operator, args)), kwargs)

    return kernel


def _widest(operator: OpOverload, args: Args) -> torch.dtype:
    """float32 if any argument is, else autocast's own type. Raises: RuntimeError for a third one before float32.

    Source: prioritize in aten/src/ATen/autocast_mode.h, which looks at the arguments in order.
    """
    dtype = lower = torch.get_autocast_dtype("cuda")
    for value in filter(_is_eligible, args):
        if value.dtype is torch.float32:
            dtype = torch.float32
        elif dtype is lower is not value.dtype:
            raise RuntimeError(
                f"{operator.name()} under autocast takes {lower} and float32: got {value.dtype}; convert its arguments "
                "first."
            )
    return dtype


def _refused(operator: OpOverload) -> Function:
    def kernel(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"{operator.name()} is not safe under autocast, as on CUDA: probabilities in half precision lose too much; "
            "give the values before the sigmoid to binary_cross_entropy_with_logits, or leave autocast for this loss."
        )

    return kernel


_KERNEL_OF = {
    Policy.LOWER_PRECISION: _in_lower_precision,
    Policy.FLOAT32: _in_float32,
    Policy.RESULT_IN_FLOAT32: _to_float32,
    Policy.OTHER_OVERLOAD: _by_other_overload,
    Policy.WIDEST: _in_widest,
    Policy.REFUSED: _refused,
}


_MADE: list[tuple[OpOverload, Function]] = []


def _kernels() -> list[tuple[OpOverload, Function]]:
    """(operator, kernel) for each of them; made once, while PyTorch's own are in their places."""
    if not _MADE:
        for name, policy in policies().items():
            operator = overload(name)
            _MADE.append((operator, _for_ours_alone(operator, _KERNEL_OF[policy](operator))))
    return _MADE


def _for_ours_alone(operator: OpOverload, ours: Function) -> Function:
    """A kernel that is ours for a simulated GPU's tensors, PyTorch's own for a real GPU's, and none for the CPU's."""
    theirs = torch.library.get_kernel(operator, "AutocastCUDA")

    def kernel(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values())
        if attached() and _any(_lies_here, values):
            return ours(*args, **kwargs)
        if _any(is_cuda, values):
            return theirs.call_boxed(keys, *args, **kwargs)
        with _without_autocast():  # a key that is on concerns all tensors; CUDA's own have it
            return operator(*args, **kwargs)

    return kernel


def _any(holds: Callable[[torch.Tensor], bool], values: Iterable[Any]) -> bool:
    for value in values:
        if isinstance(value, torch.Tensor):
            if holds(value):
                return True
        elif isinstance(value, (list, tuple)) and _any(holds, value):
            return True
    return False


def cast_as_cuda() -> Callable[[], None]:
    """Register the kernels in place of CUDA's; returns what takes them out again."""
    library = torch.library.Library("aten", "IMPL")
    assert library.m is not None, "it has just been made"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says, once, that a kernel is overridden: that is what we want
        for operator, kernel in _kernels():
            library.m.impl(operator.name().removeprefix("aten::"), "AutocastCUDA", kernel, True)

    def undo() -> None:
        library._destroy()
        CACHE.clear()

    return undo

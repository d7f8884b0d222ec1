"""Operations that ask for values: those that the host knows, and for others zeros with a warning, or an error.

Each function gets the dispatch mode, the operator and its arguments; it answers None where the operation asks for no
value after all.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

import torch
from torch._ops import OpOverload

from every_byte.gpu.known.marks import mark
from every_byte.gpu.known.reading import brought, known_values, read
from every_byte.gpu.known.supposing import Suppose, is_supposed, suppose_truths, suppose_values, take_as_supposed
from every_byte.gpu.memory.assumptions import REFUSE
from every_byte.gpu.memory.calls import Args, Kwargs
from every_byte.gpu.memory.modes import Mode
from every_byte.gpu.memory.physical import is_meta
from every_byte.gpu.operators.copies import stages
from every_byte.gpu.operators.registry import Number
from every_byte.gpu.operators.selections import MASKS, is_fill
from every_byte.interpreter import is_storing

from .checks import must_hold

aten = torch.ops.aten
_OF_THE_PROGRAM = 4
"""The frame that asks, from here: below a function of this file lie the dispatch mode's three."""


_VALIDATING = {
    "torch.distributions.distribution": ("__init__", "_validate_sample"),
    "torch.testing._comparison": ("_compare_regular_values_close",),
}
"""Functions of PyTorch, by module, that raise through others if what they ask of a tensor is not so."""


def _item(mode: Mode, func: OpOverload, args: Args, kwargs: Kwargs) -> Number:
    frame = sys._getframe(_OF_THE_PROGRAM)
    if _is_validation(frame) and known_values(args[0]) is None:
        return True
    return _number(mode, args[0], frame)


def _number(mode: Mode, tensor: torch.Tensor, frame: FrameType) -> Number:
    """The number of a tensor, for the frame that reads it: 0 where it is not known, or 1 where a check asks for it."""
    values, is_known = read(tensor)
    number = values.item()
    of_its_type = type(number)
    if is_known:
        return number
    if is_supposed(tensor):
        mode.note_assumed(f"routing={mode.memory.assumptions.routing}")
        return number
    if not number and must_hold(frame):
        mode.tell_unknown("a check of a tensor (assert, if … raise)", "is taken to hold")
        return of_its_type(1)
    mode.tell_unknown("a number or a truth of a tensor (.item(), if)")
    return number


def _is_validation(frame: FrameType) -> bool:
    """Whether PyTorch asks if all arguments are valid, or as a test expects: those of a program that runs are."""
    return frame.f_code.co_name in _VALIDATING.get(frame.f_globals.get("__name__", ""), ())


def _copy_to_cpu(mode: Mode, func: OpOverload, args: Args, kwargs: Kwargs) -> torch.Tensor | None:
    """On its way to the CPU; a copy that stays on the GPU asks for no value."""
    device = kwargs.get("device")
    if device is None or torch.device(device).type != "cpu":
        return None
    result, is_known = brought(args[0], kwargs.get("dtype") or args[0].dtype)
    _came(mode, func, result, args[0], is_known, bool(kwargs.get("non_blocking")))
    return result


def _copy_into_cpu(mode: Mode, func: OpOverload, args: Args, kwargs: Kwargs) -> torch.Tensor | None:
    """Into a tensor of the CPU; a copy into one of the GPU asks for no value."""
    if is_meta(args[0]):
        return None
    target: torch.Tensor = args[0]
    source = args[1]
    non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
    values, is_known = read(source)
    target.copy_(values)
    _came(mode, func, target, source, is_known, non_blocking)
    return target


def _came(
    mode: Mode, func: OpOverload, target: torch.Tensor, source: torch.Tensor, is_known: bool, non_blocking: bool
) -> None:
    """Values came from the GPU into a tensor of the CPU: what is not known of them, and there the stage they pass."""
    if is_supposed(source):
        mode.note_assumed(f"routing={mode.memory.assumptions.routing}")
    elif not is_known:
        mode.tell_unknown(func.name())
        mark(target)
    mode.memory.operation = func.name()
    mode.memory.allocate_and_free(*stages(target, source, non_blocking))


def _assigned_number(mode: Mode, func: OpOverload, args: Args, kwargs: Kwargs) -> torch.Tensor | None:
    """`x[...] = 1.0` makes a tensor of the number: on the CPU if x is on CUDA, else where x is."""
    frame = sys._getframe(_OF_THE_PROGRAM)
    if not is_storing(frame):
        return None
    return torch.full((), args[0], dtype=kwargs.get("dtype"))


def _shape(mode: Mode, func: OpOverload, args: Args, kwargs: Kwargs) -> None:
    """The values of the first argument say how large the result is. Raises: RuntimeError where nothing says them."""
    _assume(mode, func, args[0], suppose_values if func in _OF_DISTINCT else suppose_truths)


def _assume(mode: Mode, func: OpOverload, asked: torch.Tensor, suppose: Suppose) -> None:
    """Values on which a size depends: where they are not known they are supposed, and that is noted.

    Raises: RuntimeError where they cannot be, or are not to be.
    """
    if known_values(asked) is not None:
        return
    assumptions = mode.memory.assumptions
    if take_as_supposed(asked):
        mode.note_assumed(f"routing={assumptions.routing}")
    elif assumptions.nonzero == REFUSE or func in _UNBOUNDED or not suppose(asked, assumptions.nonzero):
        _refuse(mode, func)
    else:
        mode.note_assumed(f"nonzero={assumptions.nonzero}")


def _refuse(mode: Mode, func: OpOverload) -> NoReturn:
    error = RuntimeError(
        f"the shape of a result must not depend on values that are computed: {func.name()} on the simulated GPU "
        f"{mode.memory.spec.name} would have to read them, and nothing is computed there. Use a form of fixed shape "
        "(torch.where, masked_fill, topk, a mask that multiplies), or make the indices on the CPU and move them with "
        ".to(gpu.device)."
    )
    raise mode.refuse(func.name(), error)


def _repeats(mode: Mode, func: OpOverload, args: Args, kwargs: Kwargs) -> None:
    """How often each element is repeated says how large the result is, unless the program says so."""
    if kwargs.get("output_size") is None:
        _assume(mode, func, args[0], suppose_values)


def _rows_of_padded(mode: Mode, func: OpOverload, args: Args, kwargs: Kwargs) -> Any:
    """How many rows there are, where the program does not say so, is the largest of the offsets."""
    if len(args) > 2 and args[2] is not None or kwargs.get("total_L") is not None:
        return None
    with mode.seeing():
        total = int(args[1][-1].max())
        return func(*args[:2], total)


def _without_padding(mode: Mode, func: OpOverload, args: Args, kwargs: Kwargs) -> NoReturn:
    """nn.TransformerEncoder leaves the padding out in evaluation, if it is to: how much that is, a mask says."""
    error = RuntimeError(
        f"the shape of a result must not depend on values: {func.name()} on the simulated GPU {mode.memory.spec.name} "
        "would have to read a mask. Make nn.TransformerEncoder with enable_nested_tensor=False."
    )
    raise mode.refuse(func.name(), error)


def _made_by_load(mode: Mode, func: OpOverload, args: Args, kwargs: Kwargs) -> torch.Tensor | None:
    """`torch.load` makes what it read of a meta tensor; on the CPU if it is to bring that there (patches/files.py)."""
    if not mode.meanwhile.loading_to_cpu or torch.device(kwargs.get("device") or "cpu").type != "meta":
        return None
    mode.tell_unknown("torch.load")
    made = torch.empty_strided(*args, dtype=kwargs.get("dtype"), device="cpu").zero_()
    mark(made)
    return made


def _masked_select(mode: Mode, func: OpOverload, args: Args, kwargs: Kwargs) -> None:
    """Printing selects the numbers that are not 0, to see how wide they are: of those that are not known, none."""
    if not mode.meanwhile.printing:
        _assume(mode, func, args[1], suppose_truths)


def _equal(mode: Mode, func: OpOverload, args: Args, kwargs: Kwargs) -> bool:
    """Whether two tensors are alike, number by number; where that is not known, those of one shape are.

    Source: cuda_equal in aten/src/ATen/native/cuda/Equal.cpp.
    """
    x, y = args
    if x.shape != y.shape:
        return False
    if not x.numel() or _place(x) == _place(y):
        return True
    with mode.seeing():
        alike = x.eq(y)
        every = alike.all()
    values, is_known = read(every)
    if not is_known:
        mode.tell_unknown(func.name())
    return bool(values) if is_known else True


def _place(x: torch.Tensor) -> tuple[object, ...]:
    """What two tensors that are the same numbers have in common."""
    return x.untyped_storage()._cdata, x.storage_offset(), x.dtype, x.stride()


def _index(mode: Mode, func: OpOverload, args: Args, kwargs: Kwargs) -> None:
    """A mask as an index selects as many elements as it has true values; as a place to put one value it is a fill."""
    if is_fill(*args):
        return
    for mask in args[1]:
        if mask is not None and is_meta(mask) and mask.dtype in MASKS:
            _assume(mode, func, mask, suppose_truths)


Answer = Callable[[Mode, OpOverload, Args, Kwargs], Any]
"""What an operation that asks for values gets; None: let it run."""

_OF_DISTINCT = frozenset(
    (aten.unique_consecutive.default, aten._unique.default, aten._unique2.default, aten.unique_dim.default)
)
_UNBOUNDED = frozenset((aten.bincount.default, aten.repeat_interleave.Tensor))
"""Their results may be of any size."""

ASK_VALUES: dict[OpOverload, Answer] = {
    aten._local_scalar_dense.default: _item,
    aten._to_copy.default: _copy_to_cpu,
    aten.copy_.default: _copy_into_cpu,
    aten.scalar_tensor.default: _assigned_number,
    aten.equal.default: _equal,
    aten.empty_strided.default: _made_by_load,
    aten.masked_select.default: _masked_select,
    aten._nested_tensor_from_mask.default: _without_padding,
    aten._nested_tensor_from_mask_left_aligned.default: _without_padding,
    aten.index.Tensor: _index,
    aten.index_put.default: _index,
    aten.index_put_.default: _index,
    aten.repeat_interleave.Tensor: _repeats,
    aten._padded_dense_to_jagged_forward.default: _rows_of_padded,
    **dict.fromkeys(
        (
            aten.nonzero.default, aten.unique_consecutive.default, aten._unique.default, aten._unique2.default,
            aten.unique_dim.default, aten.bincount.default,
        ),
        _shape,
    ),
}  # fmt: skip

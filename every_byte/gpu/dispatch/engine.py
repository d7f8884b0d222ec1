"""What autograd's engine does in place on CUDA and, because a dispatch mode is on, out of place here.

PyTorch asks in many places whether a tensor might be something else than it seems (a subclass, a dispatch mode) and
is then careful not to write into it. Here such an operation is recognised and done in place again.
"""

import sys
from itertools import takewhile

import torch
from torch._ops import OpOverload
from torch.autograd.graph import Node

from every_byte.gpu.memory.calls import Args
from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.records import RECORDS
from every_byte.gpu.operators.launch.tensor_iterator import is_dense
from every_byte.interpreter import OF_THE_QUESTION
from every_byte.ledger.deep_graphs import looked_at, run_of, running_node

aten = torch.ops.aten
_use_count = torch.Tensor._use_count  # type: ignore[attr-defined]  # PyTorch's stubs lack it
_FROM_ENGINE = torch.autograd.graph._engine_run_backward.__code__
_UNSHARED = (4, 2)  # references in C++, to a gradient and to its storage: `adds_in_place` says whose
_UNNAMED = 5 + OF_THE_QUESTION  # Python's references to a tensor of a call: the call's own, down to the question itself

_EXTREMES = ("MaxBackward1", "MinBackward1", "AmaxBackward0", "AminBackward0", "LinalgVectorNormBackward0")
_MEDIANS = ("MedianBackward0", "NanmedianBackward0")
_CLAMPS = ("ClampBackward0", "ClampBackward1")
_ENTROPIES = ("BinaryCrossEntropyWithLogitsBackward0", "BinaryCrossEntropyBackward0")
_ENTROPY_TWICE = "BinaryCrossEntropyBackwardBackward0"
_ATAN2 = ("Atan2Backward0",)
_LIMITS = ("ClampBackward0", "ClampMinBackward1", "ClampMaxBackward1")  # of tensors
_LARGER_OF_TWO = ("MaximumBackward0", "MinimumBackward0", "FmaxBackward0", "FminBackward0", *_LIMITS)
"""From PyTorch 2.14 on these fill what `where` has made; before, fmax and fmin fill the gradient, out of place."""
IN_FORMULAS: dict[OpOverload, tuple[OpOverload, tuple[str, ...] | None]] = {
    aten.scatter.src: (aten.scatter_.src, None),
    aten.scatter_add.default: (aten.scatter_add_.default, None),
    aten.index_add.default: (aten.index_add_.default, None),
    aten.index_fill.int_Scalar: (aten.index_fill_.int_Scalar, ("TraceBackward0",)),
    aten.index_fill.int_Tensor: (aten.index_fill_.int_Tensor, ("TraceBackward0",)),
    aten.put.default: (aten.put_.default, ("TakeBackward0",)),
    aten.index_put.default: (aten._index_put_impl_.default, ("IndexBackward0",)),
    aten.masked_scatter.default: (aten.masked_scatter_.default, ("MaskedSelectBackward0",)),
    aten.logical_and.default: (aten.logical_and_.default, (*_EXTREMES, *_MEDIANS, *_CLAMPS)),
    aten.logical_or.default: (aten.logical_or_.default, _CLAMPS),
    aten.masked_fill.Scalar: (aten.masked_fill_.Scalar, _ATAN2),
    aten.sub.Tensor: (aten.sub_.Tensor, _ENTROPIES),
    aten.mul.Tensor: (aten.mul_.Tensor, _ENTROPIES),
    aten.div.Tensor: (aten.div_.Tensor, _ENTROPIES),
}
"""Operations by which gradient formulas in C++ fill a tensor that they have just made: what they call on CUDA instead,
and in which formulas (None: in all, but for those of OUT_OF_PLACE).

Source: areAnyTensorSubclassLike in torch/csrc/autograd/FunctionsManual.cpp and aten/src/ATen/native.
"""


_KEEPING = (aten.mul.Tensor, aten.div.Tensor)
OUT_OF_PLACE = (
    "ScatterReduceBackward0", "IndexReduceBackward0", "GridSampler2DBackwardBackward0",
    "GridSampler3DBackwardBackward0",
)  # fmt: skip

_ADDING = ("Atan2Backward0", "LogcumsumexpBackward0", "StdMeanBackward0", "VarMeanBackward0")
"""Formulas that add two tensors of their own, out of place, and of which two results may meet."""

_ADDING_IN_PLACE = ("AminmaxBackward0",)


def in_place_form(func: OpOverload, args: Args) -> OpOverload | None:
    """What a gradient formula would call on CUDA for this operation of IN_FORMULAS.

    An operation that Python code called during backward stays as it is, and so does arithmetic with a tensor that the
    formula did not make. None: it is in place, and autograd keeps a copy of what was there.
    """
    if torch._C._current_graph_task_id() == -1 or not _is_called_by_the_engine():
        return func
    if (node := running_node()) is None:
        return func
    in_place, formulas = IN_FORMULAS[func]
    if formulas is _ENTROPIES and node.name() in (*_ENTROPIES, _ENTROPY_TWICE):
        if not _is_in_place_in_entropy(func, node, args[0]):
            return func
        return None if func in _KEEPING and torch.is_grad_enabled() and args[1].requires_grad else in_place
    if node.name() in _LARGER_OF_TWO:
        if func is aten.masked_fill.Scalar:
            return in_place if _made_by(node, args[0]) == "aten::where.self" else func
        if attached()[-1].memory.spec.rules.limits_share_gradients:
            return func
    if formulas is _ATAN2 and torch.is_grad_enabled():
        return func
    if formulas is None:
        return func if node.name() in OUT_OF_PLACE else in_place
    return in_place if node.name() in formulas else func


def _is_in_place_in_entropy(func: OpOverload, node: Node, into: torch.Tensor) -> bool:
    """Whether a formula of a cross entropy of two classes writes into this operand.

    That of the target comes last, begins with a negation or a logit, and also does so where a graph is made.
    Source: binary_cross_entropy_*_backward in torch/csrc/autograd/FunctionsManual.cpp.
    """
    made_by = _made_by(node, into)
    is_of_target = made_by == "aten::logit" or _has_run(node, "aten::neg")
    if node.name() == _ENTROPY_TWICE:
        if func is aten.mul.Tensor and (
            made_by == "aten::div.Tensor" or is_of_target and made_by == "aten::empty_like"
        ):
            return True
        return is_of_target and made_by == "aten::mul.Tensor"
    if made_by in ("", "aten::neg"):
        return False
    return is_of_target or not torch.is_grad_enabled()


def adds_in_place(old: torch.Tensor, new: torch.Tensor) -> bool:
    """Whether this addition is autograd's own, of two gradients that meet, and CUDA would do it in the first one.

    The engine adds in place, where no graph is made, if it holds the only reference to the first gradient and to its
    storage, and the gradient is dense; never while a dispatch mode is on, as here. An unshared tensor is seen here with
    four references (the engine, the call's argument, Python's object, the question itself) and its storage with two.
    One that a hook has kept has the same, but its Python object has more than those of the call. An addition in the
    Python code of a custom function has that function's frame below it, not the engine's.
    Source: can_accumulate_inplace in torch/csrc/autograd/input_buffer.cpp.
    """
    if torch._C._current_graph_task_id() == -1 or not _is_called_by_the_engine():
        return False
    if (node := running_node()) is None:
        return False
    if torch.is_grad_enabled():
        return node.name() in _ADDING_IN_PLACE and bool(_made_by(node, old))
    if not isinstance(new, torch.Tensor) or old.shape != new.shape:
        return False
    uses = _use_count(old), torch._C._storage_Use_Count(old.untyped_storage()._cdata)
    if uses != _UNSHARED or sys.getrefcount(old) > _UNNAMED or not is_dense(old):
        return False
    record = RECORDS[old.untyped_storage()._cdata]
    if not record.memory.is_made_by(node, record) or node.name() in _ADDING_IN_PLACE:
        return True
    return _gives_twice(node) and node.name() not in _ADDING


def _gives_twice(node: Node) -> bool:
    """Whether two gradients that a node makes meet: else one that it has just made is its formula's own."""
    edges = [(looked_at(other), place) for other, place in node.next_functions if other is not None]
    return len(set(edges)) < len(edges)


def _is_called_by_the_engine() -> bool:
    """Whether autograd called the operation, not Python code: of a function of one's own, or of a hook.

    Below this function lie the one that asks, the dispatch mode's three, and what called that: on a thread of the
    engine's own nothing.
    """
    below = sys._getframe(4).f_back
    return below is None or below.f_code is _FROM_ENGINE


def _made_by(node: Node, tensor: torch.Tensor) -> str:
    """The operation that allocated this tensor while this node ran; "" for a tensor from elsewhere."""
    record = RECORDS[tensor.untyped_storage()._cdata]
    if not record.memory.is_made_by(node, record):
        return ""
    events = reversed(record.memory.trace.events)
    operation: str = next(e.operation for e in events if e.action == "alloc" and e.allocation == record.number)
    return operation


def _has_run(node: Node, operation: str) -> bool:
    """Whether this node, which is running, has allocated something for an operation."""
    memory = attached()[-1].memory
    if memory.running != run_of(node):
        return False
    made = (e for e in reversed(memory.trace.events) if e.action == "alloc")
    return any(e.operation == operation for e in takewhile(lambda e: e.allocation >= memory.running_from, made))

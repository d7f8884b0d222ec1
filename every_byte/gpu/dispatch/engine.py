"""What autograd's engine does in place on CUDA and, because a dispatch mode is on, out of place here.

PyTorch asks in many places whether a tensor might be something else than it seems (a subclass, a dispatch mode) and
is then careful not to write into it. Here such an operation is recognised and done in place again.
"""

import sys

import torch

from every_byte.gpu.memory.storages import RECORDS
from every_byte.gpu.operators.launch.tensor_iterator import is_dense
from every_byte.ledger.deep_graphs import running_node

aten = torch.ops.aten
_FROM_ENGINE = torch.autograd.graph._engine_run_backward.__code__
_UNSHARED = (4, 2)  # references in C++, to a gradient and to its storage: `adds_in_place` says whose
_UNNAMED = 6  # Python's references to a tensor of a call: the call's own, down to the question itself

_EXTREMES = ("MaxBackward1", "MinBackward1", "AmaxBackward0", "AminBackward0", "LinalgVectorNormBackward0")
_WITH_LOGITS = ("BinaryCrossEntropyWithLogitsBackward0",)
IN_FORMULAS = {
    aten.scatter.src: (aten.scatter_.src, None),
    aten.scatter_add.default: (aten.scatter_add_.default, None),
    aten.index_add.default: (aten.index_add_.default, None),
    aten.index_put.default: (aten._index_put_impl_.default, ("IndexBackward0",)),
    aten.masked_scatter.default: (aten.masked_scatter_.default, ("MaskedSelectBackward0",)),
    aten.logical_and.default: (aten.logical_and_.default, _EXTREMES),
    aten.masked_fill.Scalar: (aten.masked_fill_.Scalar, ("Atan2Backward0",)),
    aten.sub.Tensor: (aten.sub_.Tensor, _WITH_LOGITS),
    aten.mul.Tensor: (aten.mul_.Tensor, _WITH_LOGITS),
    aten.div.Tensor: (aten.div_.Tensor, _WITH_LOGITS),
}
"""Operations by which gradient formulas in C++ fill a tensor that they have just made: what they call on CUDA instead,
and in which formulas (None: in all).

Source: areAnyTensorSubclassLike in torch/csrc/autograd/FunctionsManual.cpp and aten/src/ATen/native.
"""


_ADDING = ("Atan2Backward0", "StdMeanBackward0", "VarMeanBackward0")
"""Formulas that add two tensors of their own, out of place."""


def in_place_form(func: torch._ops.OpOverload, into: torch.Tensor) -> torch._ops.OpOverload:
    """What a gradient formula would call on CUDA for this operation of IN_FORMULAS, whose first operand is `into`.

    An operation that Python code called during backward stays as it is, and so does arithmetic with a tensor that the
    formula did not make.
    """
    if torch._C._current_graph_task_id() == -1 or not _is_called_by_the_engine():
        return func
    in_place, formulas = IN_FORMULAS[func]
    if formulas is None:
        return in_place
    node = running_node()
    known = node.name() in formulas and (formulas is not _WITH_LOGITS or _made_for(node, into))
    return in_place if known else func


def adds_in_place(old: torch.Tensor, new: torch.Tensor) -> bool:
    """Whether this addition is autograd's own, of two gradients that meet, and CUDA would do it in the first one.

    The engine adds in place if it holds the only reference to the first gradient and to its storage, and the gradient
    is dense; never while a dispatch mode is on, as here. An unshared tensor is seen here with four references (the
    engine, the call's argument, Python's object, the question itself) and its storage with two. One that a hook has
    kept has the same, but its Python object has more than those of the call. An addition in the Python code of a custom
    function has that function's frame below it, not the engine's.
    Source: can_accumulate_inplace in torch/csrc/autograd/input_buffer.cpp.
    """
    if torch._C._current_graph_task_id() == -1 or torch.is_grad_enabled():
        return False
    if not _is_called_by_the_engine() or not isinstance(new, torch.Tensor):
        return False
    if running_node().name() in _ADDING and _made_for(running_node(), old):
        return False
    uses = old._use_count(), torch._C._storage_Use_Count(old.untyped_storage()._cdata)
    return uses == _UNSHARED and sys.getrefcount(old) <= _UNNAMED and is_dense(old)


def _is_called_by_the_engine() -> bool:
    """Whether autograd called the operation, not Python code: of a function of one's own, or of a hook.

    On a thread of the engine's own nothing lies below the dispatch mode.
    """
    below = sys._getframe(2).f_back
    return below is None or below.f_code is _FROM_ENGINE


def _made_for(node, tensor: torch.Tensor) -> bool:
    """Whether this tensor was allocated while this kind of node ran."""
    record = RECORDS[tensor.untyped_storage()._cdata]
    events = reversed(record.memory.trace.events)
    return next((e.node for e in events if e.action == "alloc" and e.allocation == record.number), "") == node.name()

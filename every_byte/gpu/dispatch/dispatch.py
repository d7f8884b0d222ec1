"""Runs each operation on meta tensors and repeats, in a simulated GPU's memory, what it would allocate on CUDA."""

import gc
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass_type

from every_byte.gpu.known.noting import note
from every_byte.gpu.known.understood import NOTHING
from every_byte.gpu.memory.attachment import (
    OPEN_AS_CUDA,
    OPEN_MEMORIES,
    attach,
    attached,
    detach,
    lend,
    take_back,
    this_thread,
)
from every_byte.gpu.memory.calls import Args, Kwargs, described
from every_byte.gpu.memory.modes import Meanwhile, Mode, Observing, Renumbering
from every_byte.gpu.memory.physical import META, is_meta
from every_byte.gpu.memory.records import RECORDS
from every_byte.gpu.memory.storages import Memory
from every_byte.gpu.operators import registry
from every_byte.gpu.protocol import GPU

from .autocast import KEY, as_called
from .belonging import ASKED_CUDA, ELSEWHERE, KNOWN, NOT_ASKED, SPARSE, Belonging, asked_by, belongs
from .engine import adds_in_place, in_place_form
from .operation import Operation, operation_of, recorded_name, type_of
from .refusals import refused, sparse_refusal
from .telling import Telling

aten = torch.ops.aten
_ON_CUDA = DispatchKey.CUDA, DispatchKey.CompositeExplicitAutograd
_FAKE = torch._C._TorchDispatchModeKey.FAKE
_NO_KERNEL = re.compile(r"with Meta tensors|from the 'Meta' backend|no fake impl")
_NOBODY = (None,)


class Dispatch(TorchDispatchMode, Telling):
    """The dispatch mode of one simulated GPU: while it is on, meta tensors are that GPU's tensors.

    Counts: every storage that an operation creates on the GPU, and what its kernels take meanwhile.
    Raises: RuntimeError for tensors of another GPU or of the CPU; torch.OutOfMemoryError.
    """

    observer: Observing
    numbering: Renumbering
    opened_among: list[Mode]

    def __init__(self, memory: Memory, owner: GPU) -> None:
        TorchDispatchMode.__init__(self)
        self.memory, self.owner = memory, owner
        self._ran: set[tuple[Operation, torch.dtype | None]] = set()
        self.meanwhile = Meanwhile()
        self.told_autocast = self.tried_bfloat16 = False
        self._checked: set[Operation] = set()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Without it `torch.compile` would silently do nothing while a simulated GPU is open."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Without it PyTorch imports its compiler, a second of work, at the first operation."""
        return False

    def __enter__(self) -> "Dispatch":
        TorchDispatchMode.__enter__(self)
        self._autocast = torch._C._IncludeDispatchKeyGuard(KEY)  # meta tensors do not have the key of themselves
        self._autocast.__enter__()
        attach(self)
        OPEN_MEMORIES.add(self.memory)
        if self.memory.as_cuda is not None:
            OPEN_AS_CUDA.append(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        detach(self)
        if self in OPEN_AS_CUDA:
            OPEN_AS_CUDA.remove(self)
        OPEN_MEMORIES.discard(self.memory)
        self._autocast.__exit__(None, None, None)
        TorchDispatchMode.__exit__(self, *exception)

    def __torch_dispatch__(
        self,
        func: OpOverload | HigherOrderOperator,
        types: Iterable[type],
        args: Args = (),
        kwargs: Kwargs | None = None,
    ) -> Any:
        if any(map(is_traceable_wrapper_subclass_type, types)):
            return NotImplemented  # a wrapper, as DTensor: what it makes of the operation comes here part by part
        # nothing runs while a compiler traces, nor where somebody asks for a result's shape, as DTensor does
        if this_thread.compiling or torch._C._get_dispatch_mode(_FAKE) is not None:
            return func(*args, **kwargs or {})
        if type(func) is not OpOverload and isinstance(func, HigherOrderOperator):  # asking an ABC takes long
            return self._run_as_on_cuda(func, args, kwargs or {})
        is_lent, turn, stacks = lend(self), self.memory.turn, None if this_thread.depth else self.memory.labels.stacks
        if turn is not None:
            turn.acquire()
        this_thread.depth += 1
        if stacks is not None:
            stacks.enter()
        try:
            return self._run_where_it_belongs(operation_of(func), args, kwargs or {})
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            # a traceback must not hold tensors that it would not hold on CUDA, where these frames do not exist
            del args, kwargs
            raise self._explained(error, func.name()).with_traceback(None) from None
        finally:
            this_thread.depth -= 1
            if stacks is not None:
                stacks.leave()
            if turn is not None:
                turn.release()
            if is_lent:
                take_back()

    def _run_where_it_belongs(self, operation: Operation, args: Args, kwargs: Kwargs) -> Any:
        """Run an operation here, if it is this GPU's; any other as if this mode were not on."""
        if self is not (attached() or _NOBODY)[-1]:
            return operation.func(*args, **kwargs)
        device = args[1] if operation.func is aten.to.device else kwargs.get("device")
        asked = NOT_ASKED if device is None else asked_by(device, self.memory)
        if asked is ASKED_CUDA:
            kwargs = {**kwargs, "device": META}
        belonging = belongs(self, operation, args, kwargs, asked)
        if belonging is ELSEWHERE:
            return operation.func(*args, **kwargs)
        if belonging is SPARSE:
            return self._run_on_sparse(operation, args, kwargs)
        if operation.in_formulas:
            return self._run_in_formula(operation, args, kwargs, belonging)
        return self._run_here(operation, args, kwargs, belonging)

    def _run_in_formula(self, operation: Operation, args: Args, kwargs: Kwargs, belonging: Belonging) -> Any:
        """Run an operation as a gradient formula calls it on CUDA, if one does: in place.

        The result may lie where the first operand did, of which autograd keeps a copy: that lies where the result
        would. Source: original_self in VariableType of operators whose gradient for the second operand reads the first.
        """
        form = in_place_form(operation.func, args)
        if form is not None:
            return self._run_here(operation_of(form), args, kwargs, belonging)
        result = self.run(operation, args, kwargs)
        self.count(operation, args, kwargs, result)
        self.memory.exchange(*(RECORDS[x.untyped_storage()._cdata] for x in (args[0], result)))
        return result

    def _run_here(self, operation: Operation, args: Args, kwargs: Kwargs, belonging: Belonging) -> Any:
        """Run an operation on this GPU: by its parts, by answering what it asks, or counting what it allocates."""
        if operation.is_composite:
            self.note_run(operation, args, kwargs)
            result = self._compose(operation.func, args, kwargs)
            if _is_unseen(result, args):
                self.not_modelled(operation.name)
            return result
        if operation.answer and (answer := operation.answer(self, operation.func, args, kwargs)) is not None:
            return answer
        given, args = args, [_with_the_others(x) for x in args] if operation.is_pointwise else args
        if operation.is_addition and adds_in_place(*args):
            result, operation = args[0].add_(args[1]), operation_of(aten.add_.Tensor)
        else:
            result = self.run(operation, args, kwargs)
            self.count(operation, args, kwargs, result)
        if operation.plan is not NOTHING:
            note(operation.func, given, kwargs, result, belonging is KNOWN, operation.plan)
        return result

    supports_higher_order_operators = True

    def _run_as_on_cuda(self, func: HigherOrderOperator, args: Args, kwargs: Kwargs) -> Any:
        """Run an operator that takes functions as PyTorch does on CUDA; what they do comes here one by one.

        Raises: NotImplementedError for one that has no form in Python there.
        """
        kernel = next((func.py_kernels[key] for key in _ON_CUDA if key in func.py_kernels), None)
        if kernel is None:
            error = NotImplementedError(
                f"an operator that takes functions must have a form in Python: {func.name()} has none that the "
                f"simulated GPU {self.memory.spec.name} could follow; call the functions themselves."
            )
            raise self.refuse(func.name(), error)
        with self.seeing():
            return kernel(*args, **kwargs)

    def run(self, operation: Operation, args: Args, kwargs: Kwargs) -> Any:
        """Run the operation on meta tensors.

        PyTorch may import modules for it. That leaves reference cycles, which hold the frames below and with them the
        caller's tensors, until Python's garbage collector finds them. On CUDA nothing is imported here.
        """
        modules = len(sys.modules)
        try:
            result = operation.run(*args, **kwargs)
        except NotImplementedError as error:
            raise (self._unknown(operation) if _NO_KERNEL.search(str(error)) else error) from None
        if len(sys.modules) != modules:
            gc.collect()
        return result

    def count(self, operation: Operation, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Repeat in the GPU's memory what the operation allocates and frees on CUDA."""
        memory = self.memory
        memory.operation = operation.name
        self.note_run(operation, args, kwargs)
        if operation.allocate is not None:
            if memory.trace.notes.calls is not None:
                memory.trace.notes.calls[len(memory.trace.events)] = described(operation.func, args, kwargs)
            registry.Call(operation.func, args, kwargs, result, memory).follow(operation.allocate)
            return
        if operation not in self._checked:
            self._check_modelled(operation)
        memory.place_results(result)

    def note_run(self, operation: Operation, args: Args, kwargs: Kwargs) -> None:
        """Note that an operator ran, unless CUDA refuses its type or where it writes; recordings hold all but views."""
        if operation.is_view:
            return
        dtype = type_of(args)
        operation.refuse(dtype, args, kwargs)
        run = operation, dtype
        if run not in self._ran:
            self._ran.add(run)
            trace = self.memory.trace
            trace.notes.operators.setdefault(recorded_name(*run), len(trace.events))

    def _explained(self, error: Exception, name: str) -> Exception:
        """The error as it is, or, where it is for want of something that is not followed here, the rule."""
        known = refused(error, name, self.memory.spec.name)
        return error if known is error else self.refuse(name, known)

    def _run_on_sparse(self, operation: Operation, args: Args, kwargs: Kwargs) -> Any:
        """Run an operation of which an argument is sparse: what it takes is that of its parts."""
        self.memory.operation = operation.name
        self.note_run(operation, args, kwargs)
        known = operation.on_sparse
        if known is None and operation.is_composite:
            return self._compose(operation.func, args, kwargs)
        result = NotImplemented if known is None else known(operation.func, *args, **kwargs)
        if result is NotImplemented:
            raise self.refuse(operation.name, sparse_refusal(operation.name, self.memory.spec.name))
        return result

    def _compose(self, func: OpOverload, args: Args, kwargs: Kwargs) -> Any:
        """Run a composite operator so that its parts come here one by one; a library's calls them as a program does."""
        inside = this_thread.depth if func.namespace == "aten" else 0
        with self.seeing(), as_called(), this_thread.having("depth", inside):
            ours = registry.composed_of(func)
            return ours(*args, **kwargs) if ours else registry.as_pytorch_does(func, *args, **kwargs)

    @contextmanager
    def seeing(self) -> Iterator[None]:
        """The operations in it come here, as a program's do: for what answers one operation by others."""
        TorchDispatchMode.__enter__(self)
        try:
            yield
        finally:
            TorchDispatchMode.__exit__(self, None, None, None)

    def _unknown(self, operation: Operation) -> NotImplementedError:
        error = NotImplementedError(
            f"what an operation returns must be known without its values: PyTorch does not say it of {operation.name}, "
            f"nor the simulated GPU {self.memory.spec.name}; compute it on the CPU and move the result with "
            ".to(gpu.device)."
        )
        return self.refuse(operation.name, error)

    def _check_modelled(self, operation: Operation) -> None:
        if not registry.allocates_outputs_alone(operation.func):
            self.not_modelled(operation.name)
        self._checked.add(operation)


def _is_unseen(result: Any, args: Args) -> bool:
    """Whether what PyTorch composed lies in a storage that none of its parts made, as that of `_lazy_clone`."""
    if type(result) is not torch.Tensor or result.layout is not torch.strided or not is_meta(result):
        return False
    if not result.nbytes or result.untyped_storage()._cdata in RECORDS:
        return False
    given = [x for x in args if type(x) is torch.Tensor and x.layout is torch.strided and is_meta(x)]
    return bool(given) and all(x.untyped_storage()._cdata in RECORDS for x in given)


def _with_the_others(value: Any) -> Any:
    """A number that lies on the CPU, beside tensors of the GPU, as one that lies there: the result does, on CUDA."""
    is_number = isinstance(value, torch.Tensor) and not is_meta(value) and value.dim() == 0
    return value.to("meta") if is_number else value

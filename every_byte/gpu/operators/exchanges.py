"""What ranks exchange: through PyTorch's process groups, as FSDP2 and DDP do, and by its functional collectives.

What a communication library takes for itself, as NCCL does, does not come from the caching allocator. On a simulated
GPU the other ranks are those of PyTorch's `fake` group, all of which have what this one has: of what is known here, as
the numbers by which DDP compares models, that says the values.
Source: torch/csrc/distributed/c10d/FakeProcessGroup.hpp, NOTE [allgather on FakeProcessGroup].
"""

from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import _create_work_from_future  # type: ignore[attr-defined]  # PyTorch's stubs lack it
from torch.distributed._functional_collectives import AsyncCollectiveTensor

from every_byte.gpu.known.noting import bring
from every_byte.gpu.memory.records import RECORDS
from every_byte.ledger.attribution import Role
from every_byte.palette import Category

from .registry import Call, allocates, returns

c10d, functional = torch.ops.c10d, torch.ops._c10d_functional

# ------------------------------------------------------------------------------------------------------- process groups
#
# An exchange writes into tensors that are there already, and so allocates nothing. It tells what they are: an
# all-gather fills parameters, a reduce-scatter takes gradients, and so does a sum over ranks during backward.


def _done(result: object) -> torch.ScriptObject:
    """An exchange that is over, and has this result."""
    future: torch.futures.Future[object] = torch.futures.Future()
    future.set_result(result)
    work: torch.ScriptObject = _create_work_from_future(future).boxed()
    return work


@returns(c10d._allgather_base_.default, c10d._reduce_scatter_base_.default)
def _into_first(output: Tensor, *rest: Any) -> tuple[Tensor, torch.ScriptObject]:
    return output, _done([output])


@returns(
    *(c10d.allreduce_.default, c10d.broadcast_.default, c10d.allgather_.default, c10d.scatter_.default),
    *(c10d.reduce_scatter_.default, c10d.alltoall_.default),
)
def _in_place(tensors: list[Tensor], *rest: Any) -> tuple[list[Tensor], torch.ScriptObject]:
    return tensors, _done(tensors)


@returns(
    *(c10d.reduce_.default, c10d.gather_.default, c10d.send.default, c10d.recv_.default),
    *(c10d.recv_any_source_.default, c10d.alltoall_base_.default, c10d.allreduce_coalesced_.default),
    *(c10d.allgather_coalesced_.default, c10d.allgather_into_tensor_coalesced_.default),
    *(c10d.reduce_scatter_tensor_coalesced_.default, c10d.barrier.default),
)
def _without_tensors(tensors: object, *rest: Any) -> torch.ScriptObject:
    return _done(tensors)


@allocates(c10d._allgather_base_.default)
def gathered(call: Call) -> None:
    """What is gathered into one tensor and is no activation is FSDP's: parameters."""
    output, source = call.args[:2]
    note(call, output, Category.GATHERED_PARAMETERS)
    if RECORDS[source.untyped_storage()._cdata].content is None:
        RECORDS[output.untyped_storage()._cdata].content = None
        return
    for part in output.view(-1).split(max(source.numel(), 1)):  # each of the others has sent what this rank has
        bring(part, source.view(-1))


@allocates(c10d._reduce_scatter_base_.default)
def scattered(call: Call) -> None:
    """What is summed and scattered is gradients, and so is what comes of them."""
    note(call, call.args[1], Category.GRADIENT_BUCKETS)
    note(call, call.args[0], Category.GRADIENTS)


@allocates(c10d.allreduce_.default, c10d.allreduce_coalesced_.default)
def summed(call: Call) -> None:
    """During backward it is gradients that are summed."""
    if torch._C._current_graph_task_id() != -1:
        for tensor in call.args[0]:
            note(call, tensor, Category.GRADIENT_BUCKETS)


@allocates(
    *(c10d.broadcast_.default, c10d.scatter_.default, c10d.reduce_.default, c10d.gather_.default),
    *(c10d.send.default, c10d.recv_.default, c10d.recv_any_source_.default, c10d.barrier.default),
    *(c10d.alltoall_.default, c10d.alltoall_base_.default, c10d.allgather_coalesced_.default),
)
def sent(call: Call) -> None:
    """What is written is there already; a broadcast brings what this rank knows too."""


@allocates(c10d.allgather_into_tensor_coalesced_.default)
def gathered_together(call: Call) -> None:
    """As one by one."""
    for tensor in call.args[0]:
        note(call, tensor, Category.GATHERED_PARAMETERS)


@allocates(c10d.reduce_scatter_.default, c10d.reduce_scatter_tensor_coalesced_.default)
def scattered_together(call: Call) -> None:
    """As one by one."""
    for tensor in call.args[0]:
        note(call, tensor, Category.GRADIENTS)


@allocates(c10d.allgather_.default)
def gathered_apart(call: Call) -> None:
    """Each of the others has sent what this rank has."""
    for outputs, source in zip(call.args[0], call.args[1], strict=True):
        for tensor in outputs:
            bring(tensor, source)


def note(call: Call, tensor: Tensor, category: str) -> None:
    """Note what the storage of a tensor is for."""
    record = RECORDS[tensor.untyped_storage()._cdata]
    if record.block is not None:
        call.memory.owners.add(record.number, Role(category))


# ----------------------------------------------------------------------------------------------- functional collectives
#
# DTensor calls these. On meta tensors PyTorch returns tensors of its compiler's: here it is what it returns on CUDA, a
# result that nobody has waited for yet.
# Source: torch/csrc/distributed/c10d/Functional.cpp, torch/distributed/_functional_collectives.py.

returns(functional._wrap_tensor_autograd.default)(AsyncCollectiveTensor)


@returns(functional.wait_tensor.default)
def _itself(x: Tensor) -> Tensor:
    return x


@allocates(functional._wrap_tensor_autograd.default, functional.wait_tensor.default)
def nothing(call: Call) -> None:
    """The tensor that was there."""


@allocates(
    functional.all_reduce.default,
    functional.all_gather_into_tensor.default,
    functional.reduce_scatter_tensor.default,
    functional.all_to_all_single.default,
    functional.broadcast.default,
    functional.all_reduce_coalesced.default,
    functional.all_gather_into_tensor_coalesced.default,
    functional.reduce_scatter_tensor_coalesced.default,
)
def outputs(call: Call) -> None:
    """A sum over ranks is a contiguous copy of its input, summed in place; gathered and scattered ones are new."""
    call.place_all()

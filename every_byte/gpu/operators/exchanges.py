"""What ranks exchange through PyTorch's process groups, as FSDP2 and DDP do: in tensors that are there already.

So an exchange allocates nothing; what a communication library takes for itself does not come from the allocator. An
exchange tells what its tensors are: an all-gather fills parameters, a reduce-scatter takes gradients, and so does a
sum over ranks during backward. On a simulated GPU the other ranks are those of PyTorch's `fake` group, all of which
have what this one has: of small tensors that came from the CPU, by which DDP compares models, that says the values.
Source: torch/csrc/distributed/c10d/FakeProcessGroup.hpp, NOTE [allgather on FakeProcessGroup].
"""

import torch
import torch.distributed as dist  # noqa: F401  (defines the operators)
from torch._C._distributed_c10d import _create_work_from_future

from every_byte.gpu.memory.agreed import agree
from every_byte.gpu.memory.storages import RECORDS
from every_byte.ledger.attribution import Role

from .kernels import KERNELS
from .registry import Call, rule

c10d = torch.ops.c10d


def _done(result: object) -> torch.ScriptObject:
    """An exchange that is over, and has this result."""
    future = torch.futures.Future()
    future.set_result(result)
    return _create_work_from_future(future).boxed()


def _into_first(output: torch.Tensor, *rest) -> tuple:
    return output, _done([output])


def _in_place(tensors: list[torch.Tensor], *rest) -> tuple:
    return tensors, _done(tensors)


KERNELS.update(
    {
        c10d._allgather_base_.default: _into_first,
        c10d._reduce_scatter_base_.default: _into_first,
        c10d.allreduce_.default: _in_place,
        c10d.broadcast_.default: _in_place,
        c10d.allgather_.default: _in_place,
    }
)


@rule(c10d._allgather_base_.default)
def gathered(call: Call) -> None:
    """What is gathered into one tensor and is no activation is FSDP's: parameters."""
    note(call, call.args[0], "gathered parameters")


@rule(c10d._reduce_scatter_base_.default)
def scattered(call: Call) -> None:
    """What is summed and scattered is gradients, and so is what comes of them."""
    note(call, call.args[1], "gradient buckets")
    note(call, call.args[0], "gradients")


@rule(c10d.allreduce_.default)
def summed(call: Call) -> None:
    """During backward it is gradients that are summed."""
    if torch._C._current_graph_task_id() != -1:
        for tensor in call.args[0]:
            note(call, tensor, "gradient buckets")


@rule(c10d.broadcast_.default)
def sent(call: Call) -> None:
    """What came from the CPU has come to all ranks."""
    for tensor in call.args[0]:
        agree(tensor, tensor)


@rule(c10d.allgather_.default)
def gathered_apart(call: Call) -> None:
    """Each of the others has sent what this rank has."""
    for outputs, source in zip(call.args[0], call.args[1], strict=True):
        for tensor in outputs:
            agree(tensor, source)


def note(call: Call, tensor: torch.Tensor, category: str) -> None:
    """Note what the storage of a tensor is for."""
    record = RECORDS[tensor.untyped_storage()._cdata]
    if record.number is not None:
        call.memory.owners.add(record.number, Role(category))

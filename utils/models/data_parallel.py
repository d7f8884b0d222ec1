"""Trains a model on ranks that each have data of their own, by PyTorch's engines: DDP, ZeRO's optimizer, FSDP2.

What a rank holds of parameters (P), gradients (G) and optimizer state (O), whole or 1/n of it on n ranks:

    replicated                       DDP                     P whole   G whole, once or twice   O whole
    replicated with states_sharded   ZeRO stage 1            P whole   G whole, once or twice   O of some parameters
    fully_sharded                    ZeRO stage 3, FSDP2     P 1/n     G 1/n                    O 1/n

FSDP2 gathers a block's parameters when it needs them. Not letting them go after forward saves the second time; the
gradients and the state are shared all the same, as in ZeRO stage 2, and so are the parameters between two steps.
"""

import gc
import sys
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket, Logger
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.parallel import DistributedDataParallel

from every_byte.gpu.ranks import is_real

if TYPE_CHECKING:
    from torch.distributed.optim import ZeroRedundancyOptimizer


Whole = TypeVar("Whole", bound=nn.Module)


def replicated(
    model: nn.Module, mesh: DeviceMesh, *, gradient_as_bucket_view: bool = False, **settings: Any
) -> DistributedDataParallel:
    """Wrap a model in PyTorch's DDP: it is whole on each rank, and its gradients are summed over the ranks in buckets.

    With `gradient_as_bucket_view` each gradient is a view of its bucket; otherwise it exists twice. `settings` are
    those of `DistributedDataParallel`. The first step fills a single bucket; from the second on, the first bucket has
    1 MiB and the others `bucket_cap_mb`, 25 MiB. With PyTorch's `fake` group there is no other rank to exchange with:
    buckets are filled, summed in place with themselves alone, and returned. A model that `tensor_parallel` has split
    over other ranks needs `plain_shares` first.

    Raises: TypeError for parameters that are DTensors; as `DistributedDataParallel`, for instance for a model without
            trained parameters.
    Source: Li et al. 2020, "PyTorch Distributed"; `DistributedDataParallel`.
    """
    if any(
        type(parameter).__name__ == "DTensor" or hasattr(parameter, "placements") for parameter in model.parameters()
    ):
        raise TypeError(
            "DDP takes plain tensors: this model's are DTensors; after tensor_parallel, call plain_shares(model) "
            "first; a model of fully_sharded needs no DDP."
        )
    wrapped = DistributedDataParallel(
        model, process_group=mesh.get_group(), gradient_as_bucket_view=gradient_as_bucket_view, **settings
    )
    if not is_real():
        wrapped.register_comm_hook(mesh.get_group(), _summed_alone)
        logger: Any = wrapped.logger
        wrapped.logger = _Untimed(logger)
    return wrapped


def states_sharded(
    model: nn.Module, mesh: DeviceMesh, optimizer: type[torch.optim.Optimizer] = torch.optim.AdamW, **settings: Any
) -> "ZeroRedundancyOptimizer":
    """ZeRO stage 1: an optimizer that has state for this rank's own parameters of a replicated model alone.

    Each rank updates its own parameters and sends them to the others. `settings` are those of the optimizer.

    Counts: whole parameters, the largest first, each dealt to the rank that has least: see `rank_parameters`.
    Raises: as `ZeroRedundancyOptimizer`, as for parameters of a model that is sharded.
    Source: Rajbhandari et al. 2020, section 5.1; `ZeroRedundancyOptimizer`.
    """
    _bring("torch.distributed.optim")
    from torch.distributed.optim import ZeroRedundancyOptimizer

    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return ZeroRedundancyOptimizer(trained, optimizer, process_group=mesh.get_group(), **settings)


def fully_sharded(
    model: Whole, mesh: DeviceMesh, *, reshard_after_forward: bool | None = None, **settings: Any
) -> Whole:
    """FSDP2: divide a model's parameters over n ranks, to be gathered block by block; returns the model.

    The blocks are those of `model.blocks`, if there are any, whatever regions they have; the model itself gathers
    everything outside them. With `reshard_after_forward=True` both free their parameters after forward, with False
    neither does; by default the blocks do. `settings` are those of `fully_shard`, `mp_policy` for one. Make the
    optimizer afterwards. FSDP2 treats a meta tensor as a parameter that is not yet made; on a simulated GPU, whose
    tensors are meta tensors, this function corrects that, and has FSDP2 use the streams of the simulated allocator.

    Counts: the rows of each parameter are divided, rounded up; a smaller share is padded in memory.
    Raises: as `fully_shard`.
    Source: Rajbhandari et al. 2020, section 5.3; Zhao et al. 2023; `fully_shard` of torch.distributed.fsdp.
    """
    _bring("torch._dynamo", "torch.distributed.fsdp")
    from torch.distributed.fsdp import fully_shard

    blocks = model._modules.get("blocks")  # `model.blocks` may be regions of them
    for part in (*(blocks if isinstance(blocks, nn.ModuleList | nn.Sequential) else ()), model):
        fully_shard(part, mesh=mesh, reshard_after_forward=reshard_after_forward, **settings)
    return model


def rank_parameters(model: nn.Module, n: int) -> list[list[nn.Parameter]]:
    """The trained parameters whose optimizer state each of n ranks has with `states_sharded`.

    Source: `_partition_parameters` of ZeroRedundancyOptimizer.
    """
    parts: list[list[nn.Parameter]] = [[] for _ in range(n)]
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in sorted(trained, key=nn.Parameter.numel, reverse=True):
        min(parts, key=lambda part: sum(map(nn.Parameter.numel, part))).append(parameter)
    return parts


def _summed_alone(group: dist.ProcessGroup, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """What DDP does with a bucket, done by hand: the `fake` group's exchanges have no result, and DDP needs one."""
    dist.all_reduce(bucket.buffer(), group=group)
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


class _Untimed:
    """DDP's logger but for the times of its steps: there are none, and it would say so to the terminal."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)

    def set_runtime_stats_and_log(self) -> None:
        pass


def _bring(*modules: str) -> None:
    """Import what takes a second to import, when it is first needed.

    Imports leave reference cycles, which hold the frames that asked for them, and so a model's parameters.
    """
    new = [name for name in modules if name not in sys.modules]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # PyTorch's, of what it does itself
        for name in new:
            __import__(name)
    if new:
        gc.collect()

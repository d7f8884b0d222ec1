"""One rank of several, for a program that says so itself: its environment, and a process group without the others."""

import os
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from every_byte.gpu.memory.as_cuda import AsCuda
from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.replacing import Changes, Function, Maker, Undo, all_of, present, replaced

_UNDEFINED = "undefined"  # what PyTorch says of a group for which no backend was asked
_PORT = "29500"  # nobody listens there, and nobody asks


def as_rank(n: int | None, rank: int = 0, per_machine: int | None = None) -> AsCuda:
    """The GPU of one of n ranks, whose environment this process gets, as torchrun would set it.

    They are all on one machine, or so many on each.

    Raises: ValueError for an n below 1, for a rank that is none of them, and for machines that n does not fill.
    """
    if n is None:
        n_ranks = 1
    elif n < 1:
        raise ValueError(f"ranks must be 1 or more: got {n}; try 8.")
    else:
        n_ranks = n
    if n is None and rank:
        raise ValueError(f"--rank is which of --ranks: got {rank} of no ranks; try --ranks 8 --rank {rank}.")
    if not 0 <= rank < n_ranks:
        raise ValueError(f"rank must be one of the {n_ranks} ranks, 0 to {n_ranks - 1}: got {rank}.")
    here = per_machine or n_ranks
    if n_ranks % here:
        raise ValueError(f"machines must have as many ranks each: got {here} on each of {n_ranks}; try {n_ranks}.")
    if n is not None:
        os.environ.update(_environment(n, rank, here))
        if n > 1:
            os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does
    return AsCuda(rank % here, here)


def _environment(n: int, rank: int, here: int) -> dict[str, str]:
    """What torchrun tells each process. Source: torch/distributed/elastic/agent/server/local_elastic_agent.py."""
    return {
        "RANK": str(rank), "LOCAL_RANK": str(rank % here), "GROUP_RANK": str(rank // here), "ROLE_RANK": str(rank),
        "WORLD_SIZE": str(n), "LOCAL_WORLD_SIZE": str(here), "GROUP_WORLD_SIZE": str(n // here), "ROLE_NAME": "default",
        "ROLE_WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": _PORT, "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0", "TORCHELASTIC_RUN_ID": "none",
    }  # fmt: skip


def pretend() -> Undo:
    """Let process groups be of PyTorch's `fake` kind, whatever kind is asked for. Returns what undoes it.

    Nobody else is there, and nothing is exchanged: what this rank allocates is the same, as NCCL's own buffers lie
    outside the caching allocator.
    """
    asked: dict[str, Any] = {"now": True}

    def only_now(making: Callable[[Function], Function]) -> Maker:
        def make(original: Function) -> Function:
            made = making(original)
            return lambda *args, **kwargs: (made if asked["now"] else original)(*args, **kwargs)

        return make

    def initializing(original: Function) -> Function:
        def init_process_group(
            backend: str | None = None, init_method: object = None, timeout: object = None, world_size: int = -1,
            rank: int = -1, store: object = None, group_name: str = "", pg_options: object = None,
            device_id: object = None, **_rest: Any,
        ) -> None:  # fmt: skip
            from torch.testing._internal.distributed.fake_pg import FakeStore

            world_size = world_size if world_size >= 0 else int(os.environ.get("WORLD_SIZE", 1))
            rank = rank if rank >= 0 else int(os.environ.get("RANK", 0))
            asked["default"] = backend or _UNDEFINED
            original(_faked(backend or "cpu:gloo,cuda:nccl"), store=FakeStore(), rank=rank, world_size=world_size)
            if (world := dist.group.WORLD) is not None:
                _name_default(world)

        return init_process_group

    def grouping(original: Function) -> Function:
        def new_group(
            ranks: list[int] | None = None,
            timeout: object = None,
            backend: str | None = None,
            pg_options: object = None,
            *rest: Any,
            **options: Any,
        ) -> Any:
            options.pop("device_id", None)
            made = original(ranks, None, backend and _faked(backend), None, *rest, **options)
            if isinstance(made, dist.ProcessGroup):
                asked[made.group_name] = backend or asked["default"]
                _name_default(made)
            return made

        return new_group

    def telling(original: Callable[[dist.ProcessGroup | None], str]) -> Function:
        def get_backend(group: dist.ProcessGroup | None = None) -> str:
            backend = original(group)
            if "fake" not in backend:
                return backend
            return str(asked.get("default" if group is None else group.group_name, asked["default"])).lower()

        return get_backend

    changes: dict[str, Callable[[Function], Function]] = {
        "init_process_group": initializing,
        "new_group": grouping,
        "get_backend": telling,
        "is_nccl_available": lambda _original: lambda: True,
    }
    # for modules that are imported meanwhile, and have these by name
    undoings: list[Undo] = [partial(asked.update, now=False)]
    for owner in _modules():
        undoings += [replaced(owner, name, only_now(make)) for name, make in changes.items() if name in vars(owner)]
    if not hasattr(dist.distributed_c10d, "ProcessGroupNCCL"):  # of which a group is asked whether it is one
        undoings.append(present(dist.distributed_c10d, "ProcessGroupNCCL", lambda _original: _NCCL))
    undoings.append(replaced(DistributedDataParallel, "__init__", _with_nobody))
    undoings.append(replaced(torch.cuda, "device_count", _one_for_each_rank))
    return all_of(undoings)


def _modules() -> list[ModuleType]:
    """PyTorch's modules of what is distributed: many have its functions by name."""
    return [module for name, module in sys.modules.copy().items() if name.split(".")[:2] == ["torch", "distributed"]]


def _one_for_each_rank(original: Callable[[], int]) -> Function:
    """As many GPUs as there are ranks on the machine, also where the ranks are pretended on one GPU."""

    def device_count() -> int:
        n_devices = original()
        is_alone = standing_for_cuda() is None and n_devices > 0
        return max(n_devices, int(os.environ.get("LOCAL_WORLD_SIZE", 1))) if is_alone else n_devices

    return device_count


def _with_nobody(original: Function) -> Function:
    """DDP's exchanges have results, which those of the `fake` group on a GPU have not; and nobody times its steps."""

    def __init__(ddp: Any, *args: Any, **kwargs: Any) -> None:
        original(ddp, *args, **kwargs)
        if standing_for_cuda() is None or ddp.device_type == "cpu":
            ddp.register_comm_hook(ddp.process_group, _summed_with_nobody)
        else:
            ddp.logger = _Untimed(ddp.logger)

    return __init__


class _NCCL:
    """In the place of NCCL's process group, where PyTorch is built without: none is one."""


class _Untimed:
    """DDP's logger but for the times of its steps: there are none, and it would say so to the terminal."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)

    def set_runtime_stats_and_log(self) -> None:
        """There are none."""


def _summed_with_nobody(
    group: dist.ProcessGroup, bucket: torch._C._distributed_c10d.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    dist.all_reduce(bucket.buffer(), group=group)
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def _faked(backend: str) -> str:
    """The fake group for the kinds of tensors that a backend serves: NCCL's are the GPU's."""
    backend = str(backend).lower()
    if ":" in backend:
        return ",".join(f"{part.split(':')[0]}:fake" for part in backend.split(","))
    return "cuda:fake" if backend == "nccl" else "cpu:fake,cuda:fake"


def _name_default(group: dist.ProcessGroup) -> None:
    """Say which kind of backend a group has: PyTorch does not, of one that it is told by kinds of tensors."""
    group._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)


PRETENDING = Changes([pretend])

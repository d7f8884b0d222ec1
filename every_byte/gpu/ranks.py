"""Makes this process one rank of several: with real others if torchrun started them, alone if not."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from importlib import import_module
from itertools import count
from typing import TypeVar

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.rendezvous import rendezvous

from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.specs import GPUSpec

from .patches.gates import GATES
from .simulated import SimulatedGPU

TIMEOUT = timedelta(seconds=60)
"""How long a rank waits for the others, at the start and in each exchange."""

_LOST = (
    *("Connection closed by peer", "Connection reset", "Broken pipe"),  # gloo
    *("remote process exited", "communicator was aborted"),  # NCCL
    *("Timed out", "timed out"),
)
_Result = TypeVar("_Result")
_groups = count()
_one_at_a_time = threading.RLock()  # a process has one group, and sliders run on another thread than cells


@contextmanager
def ranks(n: int | None = None, rank: int = 0) -> Iterator[DeviceMesh]:
    """Make this process one of n ranks and yield their mesh, of one dimension; the process group ends with the block.

    If torchrun started this process and no simulated GPU is open, the other ranks are real: they exchange tensors over
    NCCL if there are GPUs, over gloo if not, and torchrun sets `rank`. Otherwise this process is number `rank` and
    alone. PyTorch's `fake` process group takes the place of the others and exchanges nothing: a rank allocates the
    same, only the values differ. Inside, cross entropy works on logits split over V, as in PyTorch's `loss_parallel`.

    Raises: ValueError for an n that is not a positive integer or not torchrun's, for a rank that is not one of n, and
            if torchrun started more processes than there are GPUs; RuntimeError inside another `ranks`, for a port in
            use, and when another rank is lost.
    """
    with _one_at_a_time, ExitStack() as stack:
        if dist.is_initialized():
            raise RuntimeError("this process has its ranks already: leave the outer `ranks` (or process group) first.")
        real = {"RANK", "WORLD_SIZE"} <= os.environ.keys() and not attached()
        import_module("torch._dynamo")  # DTensor would at its first use, and leave cycles that hold what runs meanwhile
        if attached():
            GATES.add_fsdp()
        hook = sys.excepthook  # a process group sets another, which writes the rank before each line of a traceback
        stack.callback(_forget)
        if real:
            _join(n)
        else:
            _pretend(n, rank)
        stack.enter_context(_loss_split())
        mesh = init_device_mesh(_device_type(), (dist.get_world_size(),))
        if not real:
            sys.excepthook = hook
            yield mesh
            return
        with _telling_who_is_lost():
            yield mesh
            dist.barrier()  # no rank leaves while another may still need it
            sys.excepthook = hook


def by_rank(
    function: Callable[[SimulatedGPU, DeviceMesh], _Result], n: int, gpu: str | GPUSpec = "a100-80gb"
) -> list[_Result]:
    """What `function(gpu, mesh)` returns as each of n ranks in turn, on a fresh simulated GPU each.

    Raises: as `ranks`, `SimulatedGPU`, the function.
    """
    results = []
    for rank in range(n):
        with SimulatedGPU(gpu) as own, ranks(n, rank) as mesh:
            results.append(function(own, mesh))
    return results


def is_real() -> bool:
    """Whether the other ranks are there, and exchange what they have."""
    return dist.is_initialized() and dist.get_backend() != "fake"


def _device_type() -> str:
    """To PyTorch a mesh of simulated GPUs is one of CPUs: it knows none of `meta`, and takes meta tensors in this."""
    return "cuda" if torch.cuda.is_available() and not attached() else "cpu"


def _pretend(n: int | None, rank: int) -> None:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"n must be a positive integer, how many ranks there are: got n={n!r}; try 8.")
    if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < n:
        raise ValueError(f"rank must be one of the n={n} ranks, 0 to {n - 1}: got rank={rank!r}.")
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=n)


def _join(n: int | None) -> None:
    """Meet the other processes. Each meeting has keys of its own in the store, where an earlier one left some."""
    world_size = int(os.environ["WORLD_SIZE"])
    if n not in (None, world_size):
        raise ValueError(
            f"n must be the number of processes: got n={n!r}, and torchrun started {world_size}; start "
            f"torchrun with --nproc-per-node={n}, or call ranks() without n."
        )
    if torch.cuda.is_available():
        _take_own_gpu(int(os.environ.get("LOCAL_RANK", 0)))
    with _telling_who_is_lost():
        try:
            store, rank, world_size = next(rendezvous("env://", timeout=TIMEOUT))
        except dist.DistNetworkError as error:
            if "EADDRINUSE" not in str(error):
                raise
            raise RuntimeError(
                f"MASTER_PORT must be free: got {os.environ['MASTER_PORT']}, which is in use; end what listens there, "
                "take another port, or start with torchrun --standalone, which finds a free one."
            ) from error
        store = torch._C._distributed_c10d.PrefixStore(f"ranks {next(_groups)}", store)
        # what is no tensor goes over gloo on GPUs too, so that no figure of theirs has it
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=TIMEOUT)


def _take_own_gpu(local_rank: int) -> None:
    if local_rank >= torch.cuda.device_count():
        raise ValueError(
            f"each process needs a GPU of its own: this is number {local_rank}, from 0, and there are "
            f"{torch.cuda.device_count()}; start fewer with --nproc-per-node, or hide the GPUs with "
            'CUDA_VISIBLE_DEVICES="" to exchange over gloo.'
        )
    torch.cuda.set_device(local_rank)


@contextmanager
def _telling_who_is_lost() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if not any(sign in str(error) for sign in _LOST):
            raise
        raise RuntimeError(
            f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} has lost another rank: it failed, or kept this "
            f"one waiting for {TIMEOUT.seconds} s; the first error of any rank, above or below, is the cause."
        ) from error


@contextmanager
def _loss_split() -> Iterator[None]:
    """PyTorch's `loss_parallel`, which would stay on after an error."""
    from torch.distributed.tensor.parallel import loss_parallel

    split = loss_parallel()
    split.__enter__()
    try:
        yield
    finally:
        split.__exit__(None, None, None)


def _forget() -> None:
    """Leave nothing of these ranks: DTensor takes a later mesh of as many ranks for this one, whichever rank it is."""
    from torch.distributed.tensor import _random, debug

    debug._clear_sharding_prop_cache()
    _random._rng_tracker = None
    if dist.is_initialized():
        dist.destroy_process_group()

"""Processes that a program starts for its ranks: this one runs its own rank's part, and the others are not there."""

import sys
from typing import Any

import torch.multiprocessing as mp

from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.replacing import Function, Undo, all_of, replaced

from .naming import as_cuda


class _Done:
    """What `spawn(..., join=False)` gives: all has run already."""

    processes: list[object] = []

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Nothing is left to wait for."""
        return True

    def pids(self) -> list[int]:
        """There are no others."""
        return []


def run_own_rank_here() -> Undo:
    """Let `torch.multiprocessing.spawn` call its function here, as this process's rank. Returns what undoes it."""

    def spawning(original: Function) -> Function:
        def spawn(
            fn: Function,
            args: tuple[Any, ...] = (),
            nprocs: int = 1,
            join: bool = True,
            daemon: bool = False,
            start_method: str = "spawn",
        ) -> Any:
            if standing_for_cuda() is None:
                return original(fn, args, nprocs, join, daemon, start_method)
            here = as_cuda()
            if nprocs not in (1, here.n_devices):
                raise NotImplementedError(
                    f"a simulated GPU is one of as many as there are ranks: {nprocs} processes were to be started, and "
                    f"the machine has {here.n_devices} GPUs here; run it with --ranks {nprocs}."
                )
            fn(0 if nprocs == 1 else here.index, *args)
            return None if join else _Done()

        return spawn

    module = sys.modules["torch.multiprocessing.spawn"]  # the function has its name
    names = "spawn", "start_processes"
    return all_of([replaced(owner, name, spawning) for owner in (mp, module) for name in names])

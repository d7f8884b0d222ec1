"""The CPU's random numbers around what is computed again: forked on a simulated GPU, as they are on CUDA."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch

from every_byte.gpu.memory.modes import attached

from .replacing import Function, Undo, replaced


def fork_for_meta() -> Undo:
    """Let `torch.random.fork_rng` put the CPU's state back for tensors that it takes for meta. Returns what undoes it.

    A checkpoint sets that state to what it was in forward, and asks `fork_rng` to put it back after it has computed
    again; that does nothing for meta tensors. A program that draws on the CPU next, as for layers that are left out at
    random, would draw the same numbers again. What a simulated GPU draws has no state.
    Source: torch/random.py, torch/utils/checkpoint.py.
    """

    def forking(original: Function) -> Function:
        @contextmanager
        def fork_rng(
            devices: Iterable[torch.device] | None = None,
            enabled: bool = True,
            _caller: str = "fork_rng",
            _devices_kw: str = "devices",
            device_type: str | None = None,
        ) -> Iterator[None]:
            if device_type == "meta" and attached():
                devices, device_type = (), "cuda"
            named = {} if device_type is None else {"device_type": device_type}  # whose default is the version's
            with original(devices, enabled, _caller, _devices_kw, **named):
                yield

        return fork_rng

    return replaced(torch.random, "fork_rng", forking)

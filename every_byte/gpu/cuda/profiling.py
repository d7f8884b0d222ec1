"""PyTorch's profilers, asked to time CUDA's kernels: there are none, and the rest of what they see they see."""

from typing import Any

import torch.autograd.profiler

from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.replacing import Function, Undo, all_of, replaced


def profile_the_host_alone() -> Undo:
    """Let a profile of "cuda" be one of the CPU. Returns what undoes it.

    A CPU build of PyTorch would try to make an event of CUDA's at each operation, and complain at each.
    """
    profiler = torch.autograd.profiler

    def beginning(original: Function) -> Function:
        def __init__(
            profile: object, *args: Any, use_cuda: bool = False, use_device: str | None = None, **rest: Any
        ) -> None:
            if standing_for_cuda() is not None and (use_cuda or use_device == "cuda"):
                use_cuda, use_device = False, None
            original(profile, *args, use_cuda=use_cuda, use_device=use_device, **rest)

        return __init__

    def marking(original: Function) -> Function:
        def __enter__(marks: object) -> Any:
            return marks if standing_for_cuda() is not None else original(marks)

        return __enter__

    def ending(original: Function) -> Function:
        def __exit__(marks: object, *error: Any) -> Any:
            return False if standing_for_cuda() is not None else original(marks, *error)

        return __exit__

    return all_of(
        [
            replaced(profiler.profile, "__init__", beginning),
            replaced(profiler.emit_nvtx, "__enter__", marking),
            replaced(profiler.emit_nvtx, "__exit__", ending),
        ]
    )

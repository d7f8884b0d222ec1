"""How Liger-Kernel's benchmark measures: the peak of the last of several runs, each after a reset.

Its median of ten runs is the last of ours, since all runs but the first are alike.
"""

from collections.abc import Callable

import torch

DTYPES = {f"torch.{name}": getattr(torch, name) for name in ("float32", "bfloat16", "float16")}
RUNS = 4


def peak(gpu, run: Callable[[], object]) -> int:
    """The peak of the last of several runs."""
    for _ in range(RUNS):
        gpu.reset_peak_memory_stats()
        run()
    return gpu.max_memory_allocated()


def by_mode(gpu, mode: str, forward: Callable[[], torch.Tensor], given: torch.Tensor | None = None) -> int:
    """The peak of forward alone, of backward alone through a graph that is kept, or of both.

    `given` is the gradient of the result where it is made once, before; else each run makes one.
    """
    if mode == "forward":
        return peak(gpu, forward)
    if mode == "backward":
        y = forward()
        gradient = torch.randn_like(y) if given is None else given
        return peak(gpu, lambda: y.backward(gradient, retain_graph=True))

    def full() -> None:
        y = forward()
        y.backward(torch.randn_like(y) if given is None else given, retain_graph=True)

    return peak(gpu, full)

"""Captured CUDA graphs: what is captured counts as it runs, once, and what a replay would do is not known."""

from typing import Any

from .naming import simulated_cuda

NOT_CAPTURED = (
    "torch.cuda.CUDAGraph is not modelled: on a simulated GPU what is captured runs once and counts as that; on a card "
    "the graph keeps its memory in a pool of its own, and each replay runs in it again. Leave the capture out to have "
    "exact figures."
)


class CUDAGraph:
    """A graph that says, when it is captured, that its pool is not known; to replay it does nothing."""

    def __new__(cls, *_args: Any, **_kwargs: Any) -> "CUDAGraph":
        """Takes what PyTorch's takes."""
        return object.__new__(cls)

    def __init__(self, keep_graph: bool = False, **_rest: Any) -> None:
        """Takes what PyTorch's takes."""

    def capture_begin(self, pool: object = None, capture_error_mode: str = "global", **_rest: Any) -> None:
        """What follows counts as it runs."""
        simulated_cuda().not_modelled("torch.cuda.CUDAGraph", NOT_CAPTURED)

    def capture_end(self) -> None:
        """What follows is not part of it."""

    def instantiate(self) -> None:
        """There is nothing to prepare."""

    def replay(self) -> None:
        """Nothing runs again."""

    def reset(self) -> None:
        """It holds nothing."""

    def pool(self) -> tuple[int, int]:
        """A pool's name; there is none."""
        return 0, 1

    def register_generator_state(self, generator: object) -> None:
        """No number is drawn."""

    def enable_debug_mode(self) -> None:
        """There is nothing to see."""

    def debug_dump(self, path: str) -> None:
        """There is nothing to see."""


def graph_pool_handle() -> tuple[int, int]:
    """A pool's name, for graphs that are to share one."""
    return 0, 1

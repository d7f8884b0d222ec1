"""Checkpointing's experiments: gradients on real tensors; bytes, FLOPs and batches on simulated GPUs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import torch
from torch import nn

from .checkpointing import checkpoint
from .gpt_runs import gpt_steps
from .layers import check_positive
from .operations import FlopCounter
from .regions import set_regions
from .simulated.gpu import SimulatedGPU
from .trace import Trace
from .training import StepSettings

AUTOCAST = StepSettings(autocast=torch.bfloat16)
_REQUESTED = "requested_bytes.all.current"


def sines(n: int, segments: int | None = None, *, unit_bytes: int = 2**20) -> Trace:
    """Forward and backward of sin(sin(...(x))), n sines, on a fresh simulated A100; all kept, or checkpointed segments.

    The loss is a sum, and nobody has a name for the last sine's result. The marks are "forward" and "backward".

    Shapes: x[unit_bytes / 4], float32, a leaf that requires grad -> loss[]
    Raises: ValueError for an n or segments that are no positive integers, and for segments that do not divide n.
    """
    check_positive(n=n, segments=segments or 1)
    if n % (segments or 1):
        raise ValueError(f"segments must divide n: got segments={segments}, n={n}.")
    with SimulatedGPU("a100-80gb") as gpu:
        x = torch.empty(unit_bytes // 4, device=gpu.device, requires_grad=True)
        with gpu.trace.in_phase("forward"):
            loss = _sines_in_segments(x, n, segments).sum()
        gpu.trace.mark("forward")
        with gpu.trace.in_phase("backward"):
            loss.backward()
        gpu.trace.mark("backward")
    return gpu.trace


def _sines_in_segments(x: torch.Tensor, n: int, segments: int | None) -> torch.Tensor:
    if segments is None:
        return _sine_of_sine(x, n)
    for _ in range(segments):
        x = checkpoint(_sine_of_sine, x, n // segments)
    return x


def _sine_of_sine(x: torch.Tensor, n: int) -> torch.Tensor:
    for _ in range(n):
        x = x.sin()
    return x


def peak_in_units(trace: Trace, unit_bytes: int = 2**20) -> int:
    """The most that a trace has requested at once, in whole units; what is left over (a loss, a sum's) is dropped."""
    return trace.requested_bytes(trace.peak_position()) // unit_bytes


# On real tensors, with values.


def gradients(function: Callable, run: Callable, *args, seed: int = 1, **kwargs) -> list[torch.Tensor | None]:
    """What comes out of `run(function, x, *args, **kwargs)`, and the gradients of x and of the function's parameters.

    It starts from the same random numbers each time. The loss is the sum of squares.

    Shapes: x[4, 16] (float64, random numbers of its own) -> [output, gradient of x, one for each parameter]
    """
    x = torch.linspace(-1, 1, 64, dtype=torch.float64).view(4, 16).requires_grad_()
    parameters = list(function.parameters()) if isinstance(function, nn.Module) else []
    for parameter in parameters:
        parameter.grad = None
    torch.manual_seed(seed)
    y = run(function, x, *args, **kwargs)
    y.square().sum().backward()
    return [y.detach(), x.grad, *(parameter.grad for parameter in parameters)]


def equal(one: Sequence[torch.Tensor | None], other: Sequence[torch.Tensor | None]) -> bool:
    """Whether all tensors agree, bit for bit."""
    return all(
        (a is None) == (b is None) and (a is None or torch.equal(a, b)) for a, b in zip(one, other, strict=True)
    )


def eager(function: Callable, *args, **kwargs):
    """No checkpoint at all."""
    return function(*args, **kwargs)


# On a simulated GPU.


def held(gpu, run: Callable[[], torch.Tensor]) -> int:
    """What is held when `run()` has made its output, beyond what there was before; the output is left out.

    Unit:   bytes, requested.
    """
    gpu.load_libraries()
    before_bytes = gpu.memory_stats()[_REQUESTED]
    output = run()
    return gpu.memory_stats()[_REQUESTED] - before_bytes - output.nbytes


@dataclass(frozen=True)
class RegionRun:
    """The second training step of a GPT with some regions checkpointed, on a simulated A100.

    Counts: everything, parameters and optimizer state too: at the end of forward, and at the peak; `peak_in` is the
            operation whose request made the peak, behind its module.
    Unit:   bytes, requested.
    """

    held_bytes: int
    peak_bytes: int
    peak_in: str


@cache
def in_regions(regions: str, k: int | None = None, *, name: str = "gpt2", b: int = 12, **model) -> RegionRun:
    """Two steps of one of the four GPT-2s under autocast to bfloat16, with a fused AdamW, as `gpt_steps` runs them.

    `model` has settings of `GPT`: `kind="explicit"` for nanoGPT's attention; here PyTorch's own is the default.

    Raises: as `set_regions`, `gpt_steps`.
    """
    settings = {"kind": "sdpa"} | model
    with SimulatedGPU("a100-80gb") as gpu:
        run = gpt_steps(gpu, name, b=b, settings=AUTOCAST, wrap=_with(regions, k), **settings)
    at = gpu.trace.peak_position(after="step 1 zero_grad", until="step 2 zero_grad")
    event = gpu.trace.events[at - 1]
    peak_in = f"{event.module} {event.operation.removeprefix('aten::')}".strip()
    return RegionRun(run[2, "forward"].requested_bytes, gpu.trace.requested_bytes(at), peak_in)


def _with(regions: str, k: int | None = None) -> Callable[[nn.Module], nn.Module]:
    return partial(set_regions, regions=regions, k=k)


def added_by_a_block(regions: str, *, b: int, s: int, settings: StepSettings = StepSettings(), **model) -> int:
    """By how much forward holds more for backward if the GPT has a third block: one layer's bytes, in a GPT-2's width.

    Counts: what forward adds, so neither parameters nor optimizer state; autocast's copies of the layer's weights are
            in, where they are kept.
    Unit:   bytes, requested.
    Raises: as `set_regions`, `gpt_steps`.
    """
    added = []
    for n_layers in (2, 3):
        with SimulatedGPU("a100-80gb") as gpu:
            run = gpt_steps(
                gpu, b=b, s=s, settings=settings, n_steps=1, n_layers=n_layers, wrap=_with(regions), **model
            )
        added.append(run[1, "forward"].requested_bytes - run[1, "batch"].requested_bytes)
    return added[1] - added[0]


@cache
def step_flops(regions: str, k: int | None = None, *, name: str = "gpt2", s: int = 1024, **model) -> int:
    """The FLOPs of forward and backward of one sequence: matrix products and attention.

    Raises: as `set_regions`, `gpt_steps`.
    """
    settings = {"kind": "sdpa"} | model
    with SimulatedGPU("a100-80gb") as gpu, FlopCounter() as counter:
        gpt_steps(gpu, name, b=1, s=s, settings=AUTOCAST, n_steps=1, wrap=_with(regions, k), **settings)
    return counter.total


def trains(card: str, regions: str, *, b: int, name: str = "gpt2", **model) -> bool:
    """Whether two training steps run on a simulated card; else memory runs out.

    Raises: as `set_regions`, `gpt_steps`; ValueError for a card that is not known.
    """
    settings = {"kind": "sdpa"} | model
    try:
        with SimulatedGPU(card) as gpu:
            gpt_steps(gpu, name, b=b, settings=AUTOCAST, wrap=_with(regions), **settings)
    except torch.OutOfMemoryError:
        return False
    return True

"""What answers about whole checkpoints are checked against: runs on the simulated GPU and on small real tensors."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F

from every_byte.gpu.simulated import SimulatedGPU
from utils.contexts import SavedTensorContext
from utils.experiments.checkpointed_runs import in_regions, step_flops, trains
from utils.experiments.readings import requested
from utils.layers import Block, Run
from utils.models.checkpointing import checkpoint
from utils.models.gpt import letters
from utils.models.regions import region_lengths

Layer: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor | None]  # as `moody_layer`
Loss: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor | None]  # as `plain_loss`
N_SMALL = 101  # positions; a prime, so that no smaller number of pieces makes them equal
SMALL_CARD, N_SEQUENCES, FEWEST_AT_ONCE = "rtx3090-24gb", 24, 12
"""The card that exercise 6 must fit, the sequences of its step, and how many it must take at once."""
LOSS = {"n": 12 * 1024, "d": 768, "V": 50304}
"""The last positions of GPT-2 small at a batch of 12."""


@cache
def freed_bytes(b: int, s: int, d: int, a: int) -> int:
    """How much less a block under autocast, with flash attention, holds after forward if it is a checkpoint."""
    held = []
    runs: tuple[Run, ...] = (lambda block, x: block(x), checkpoint)
    for run in runs:
        with SimulatedGPU("a100-80gb") as gpu:
            block = Block(d, a, "gelu", device=gpu.device, bias=False)
            x = torch.empty(b, s, d, device=gpu.device, requires_grad=True)
            gpu.load_libraries()
            before_bytes = requested(gpu)
            with torch.autocast("cuda", torch.bfloat16):
                _y = run(block, x)
            held.append(requested(gpu) - before_bytes)
    return held[0] - held[1]


def moody_layer(x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    """A layer that keeps a running mean of its values, and that is loud or quiet by chance."""
    h = torch.tanh(x @ weight)
    with torch.no_grad():
        mean.mul_(0.9).add_(h.mean(), alpha=0.1)
    factor = 2.0 if random.random() < 0.5 else 0.5
    return F.gelu(h * factor)


@dataclass(frozen=True)
class Trained:
    """The results of a step through a layer; `draws` are the random numbers drawn after forward and after backward."""

    output: torch.Tensor
    gradients: dict[str, torch.Tensor | None]
    mean_after_forward: float
    mean_after_backward: float
    draws: tuple[float, float]


def train_moody(function: Layer, seed: int) -> Trained | None:
    """A step through a layer such as `moody_layer` on small real tensors; None if it returns None."""
    with _seeded(seed):
        x, weight, mean = _moody_arguments(seed)
        y = function(x, weight, mean)
        if y is None:
            return None
        after_forward, draw = float(mean), random.random()
        y.sin().sum().backward()
        gradients = {"x": x.grad, "weight": weight.grad}
        return Trained(y.detach(), gradients, after_forward, float(mean), (draw, random.random()))


def kept_by(function: Layer) -> int:
    """The bytes that a layer such as `moody_layer` keeps for backward, besides its arguments."""
    arguments = _moody_arguments(0)
    with _seeded(0), SavedTensorContext(arguments) as saved:
        _y = function(*arguments)  # what it keeps lives as long as its graph
        return saved.saved_tensor_mem


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


def _moody_arguments(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return _leaf(generator, 6, 5), _leaf(generator, 5, 4), torch.zeros((), dtype=torch.float64)


def plain_loss(x: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The head of a GPT and its loss, for all positions at once.

    Shapes: x[n, d], weight[V, d], targets[n] -> one number
    """
    return F.cross_entropy(x @ weight.T, targets)


def small_loss(function: Loss) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None] | None:
    """Value and gradients of x and weight of a loss such as `plain_loss` on small real tensors; None if it has none."""
    generator = torch.Generator().manual_seed(0)
    x, weight = _leaf(generator, N_SMALL, 5), _leaf(generator, 11, 5)
    loss = function(x, weight, torch.arange(N_SMALL) % 11)
    if loss is None:
        return None
    loss.backward()
    return loss.detach(), x.grad, weight.grad


def means_of_means() -> Iterator[torch.Tensor]:
    """The wrong `small_loss` that averages the means of pieces, for each number of pieces."""
    for n in range(2, N_SMALL):
        if (small := small_loss(partial(_mean_of_means, n))) is not None:
            yield small[0]


def _mean_of_means(n: int, x: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    pieces = list(zip(x.chunk(n), targets.chunk(n), strict=True))
    total: Any = sum(plain_loss(x, weight, targets) for x, targets in pieces)  # a tensor, since there are pieces
    mean: torch.Tensor = total / len(pieces)
    return mean


@dataclass(frozen=True)
class Step:
    """The bytes at the start of backward, and the most in forward and backward, gradients included."""

    held_bytes: int
    peak_bytes: int


def large_loss(function: Loss) -> Step:
    """A step through a loss such as `plain_loss` at the sizes of LOSS."""
    with SimulatedGPU("a100-80gb") as gpu:
        x, weight = (torch.empty(LOSS[n], LOSS["d"], device=gpu.device, requires_grad=True) for n in "nV")
        targets = torch.empty(LOSS["n"], dtype=torch.int64, device=gpu.device)
        gpu.load_libraries()
        before_bytes = requested(gpu)
        loss = function(x, weight, targets)
        assert loss is not None
        held_bytes = requested(gpu) - before_bytes
        loss.backward()
        return Step(held_bytes, requested(gpu, "peak") - before_bytes)


@dataclass(frozen=True)
class Fit:
    """Whether a run of GPT-2 small fits on SMALL_CARD, its peak on a larger card, and the FLOPs that it adds."""

    fits: bool
    peak_bytes: int
    more_flops: float


@cache
def fit(b: int, micro_batches: int, regions: str, k: int | None = None) -> Fit:
    """Two steps with explicit attention under autocast, in so many micro-batches of b sequences.

    Unit:   bytes, requested; FLOPs of attention and products as a share of the step's without a checkpoint.
    Raises: as `set_regions`; ValueError for regions of several blocks, whose FLOPs are not counted here.
    """
    L = letters("gpt2")["L"]
    lengths = region_lengths(regions, L=L, k=k)
    if max(lengths, default=0) > 1:
        given = f"{regions=}" if k is None else f"{regions=}, {k=}, regions of up to {max(lengths)} blocks"
        raise ValueError(
            f"each region must be within one block, to count its FLOPs: got {given}; try 'every k-th block'."
        )
    name, share = (regions, 1.0) if k is None else ("every block", len(lengths) / L)
    more = step_flops(name, kind="explicit") / step_flops("none", kind="explicit") - 1
    run = in_regions(regions, k, b=b, kind="explicit", micro_batches=micro_batches)
    is_enough = trains(SMALL_CARD, regions, k=k, b=b, kind="explicit", micro_batches=micro_batches)
    return Fit(is_enough, run.peak_bytes, share * more)


def _leaf(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()

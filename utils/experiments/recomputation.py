"""Small experiments of checkpointing: a chain of sines, a block's bytes and prices, gradients."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import nn

from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.trace import Trace
from every_byte.remedies.operations import Operation, Region
from every_byte.remedies.policies import Plan
from every_byte.tables import Table
from utils.contexts import SavedTensorContext
from utils.layers import Run, check_positive
from utils.models.checkpointing import checkpoint
from utils.models.compiled import first_to_go
from utils.models.regions import library_checkpoint

from .block_stack import Stack
from .readings import requested

Result = TypeVar("Result")


def sines(n: int, segments: int | None = None, *, unit_bytes: int = 2**20) -> Trace:
    """Forward and backward of sin(sin(...(x))), n sines, on a fresh simulated A100: all kept, or in segments.

    The loss is a sum, and nothing refers to the last sine's result. The marks are "forward" and "backward".

    Shapes: x[unit_bytes / 4], float32, a leaf that requires grad -> loss[]
    Raises: ValueError unless n and segments are positive integers and segments divides n.
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
    """The most that a trace has requested at once, in whole units; smaller things, such as the loss, are dropped."""
    return trace.requested_bytes(trace.peak_position()) // unit_bytes


def held_by_a_block(stack: Stack, run: Run = library_checkpoint, **how: Any) -> tuple[int, int]:
    """What the first block of a stack holds after `run(block, x, **how)`: by the allocator, and by saved-tensor hooks.

    Counts: neither the parameters, nor the input, nor the output.
    Unit:   bytes, requested; for the hooks, bytes of storage.
    """
    with SimulatedGPU("a100-80gb") as gpu:
        block, x = stack.blocks(gpu.device)[0], stack.input(gpu.device)
        gpu.load_libraries()
        before_bytes = requested(gpu)
        with SavedTensorContext([x, *block.parameters(), *block.buffers()]) as saved:
            output = run(block, x, **how)
        held_bytes = requested(gpu) - before_bytes - output.nbytes
        return held_bytes, saved.saved_tensor_mem


def prices(region: Region) -> str:
    """The operations of a region that make something, as a table: bytes to keep, FLOPs to run again, and their ratio.

    Counts: leaves out views, and the last operation, whose result is the region's output.
    """
    rows = []
    for call in region.operations:
        n_bytes = sum(region.storage_bytes[storage] for storage in call.made - call.read)
        if n_bytes:
            price = f"{call.flops / n_bytes:,.0f}" if call.runs_again else "not run again"
            rows.append([_name(call), f"{n_bytes:,d}", f"{call.flops / 10**9:.2f}", price])
    return Table("", ["operation", "bytes", "GFLOP", "FLOP a byte"], rows, numbers=3).text()


def kept_names(plan: Plan) -> str:
    """The operations that a plan keeps, by their short names: "addmm 1, gelu 1"."""
    return ", ".join(_name(plan.region.operations[position]) for position in sorted(plan.kept)) or "nothing"


def _name(call: Operation) -> str:
    return f"{call.operator.overloadpacket.__name__.removeprefix('_scaled_dot_product_')} {call.nth}"


def let_go_by_compiler(stack: Stack, budgets: Iterable[float]) -> dict[str, float | None]:
    """For each operation of a block the largest of these memory budgets at which a compiled backward runs it again.

    Raises: as `first_to_go`.
    """
    with SimulatedGPU("a100-80gb") as gpu:
        block, x = stack.blocks(gpu.device)[0], stack.input(gpu.device)
        return first_to_go(lambda: block, (x,), budgets)


def gradients(
    function: Callable[..., torch.Tensor], run: Run, *args: Any, seed: int = 1, **kwargs: Any
) -> list[torch.Tensor | None]:
    """What comes out of `run(function, x, *args, **kwargs)`, and the gradients of x and of the function's parameters.

    It starts from the same random numbers each time (`seed`). The loss is the sum of squares.

    Shapes: x[2, 8, 16], float64, from -1 to 1 -> [output, gradient of x, one for each parameter]
    """
    x = torch.linspace(-1, 1, 256, dtype=torch.float64).view(2, 8, 16).requires_grad_()
    parameters = list(function.parameters()) if isinstance(function, nn.Module) else []
    for parameter in parameters:
        parameter.grad = None
    torch.manual_seed(seed)
    y = run(function, x, *args, **kwargs)
    y.square().sum().backward()
    return [y.detach(), x.grad, *(parameter.grad for parameter in parameters)]


def equal(one: Sequence[torch.Tensor | None], other: Sequence[torch.Tensor | None]) -> bool:
    """Whether all tensors agree, bit for bit."""
    pairs = zip(one, other, strict=True)
    return all(a is b is None or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs)


def eager(function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    """No checkpoint at all."""
    return function(*args, **kwargs)

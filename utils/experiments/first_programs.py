"""The first programs of the book, for an open GPU, simulated or live: tensors, a layer's forward, a training run."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from every_byte.formula.formula import Formula
from every_byte.gpu.memory.records import RECORDS
from every_byte.gpu.memory.specs import find_spec
from every_byte.gpu.protocol import GPU
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.readings import Readings
from every_byte.ledger.requests import Moment
from every_byte.ledger.saved_tensors import SavedTensor
from every_byte.ledger.trace import Trace
from every_byte.units import MiB
from utils.contexts import AllocatedMemContext, SavedTensorContext
from utils.layers import MLP, LinearStack, check_positive
from utils.models.gated import GatedMLP

from .training import train_in_phases

_A100 = find_spec("a100-80gb")
SMALL_GPU = replace(_A100, name="a100-64mib", total_bytes=_A100.context_bytes + 64 * MiB)
"""An A100 with only 64 MiB left after the CUDA context: small enough to fill, and to draw."""

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": torch.optim.SGD,
    "SGD with momentum": partial(torch.optim.SGD, momentum=0.9),
    "Adam": torch.optim.Adam,
    "Adam, fused": partial(torch.optim.Adam, fused=True),
}


def tensor_of(gpu: GPU, n_bytes: int) -> torch.Tensor:
    """A tensor of that many bytes, one per element. Raises: RuntimeError, PyTorch's own, for fewer than 0."""
    return torch.empty(n_bytes, dtype=torch.uint8, device=gpu.device)


class CounterTable:
    """Reads counters of a GPU after each step of a program, and prints them as a table.

    Counts: the functions of `gpu` named in `counters`, each of which gives bytes.
    Raises: ValueError for a counter that a GPU does not have.
    """

    def __init__(self, gpu: GPU, *counters: str) -> None:
        self._gpu = gpu
        self._counters = counters or ("memory_allocated",)
        if unknown := [name for name in self._counters if not hasattr(gpu, name)]:
            raise ValueError(f"counters must be functions of a GPU, as memory_allocated: got {unknown[0]!r}.")
        self.rows: list[tuple[str, tuple[int, ...]]] = []

    def note(self, step: str) -> None:
        """Read all counters now."""
        self.rows.append((step, tuple(getattr(self._gpu, counter)() for counter in self._counters)))

    def __str__(self) -> str:
        names = [counter.replace("memory_", "") for counter in self._counters]
        left = max(len(step) for step, _ in self.rows)
        lines = [" " * left + "".join(f"{name:>15}" for name in names)]
        lines += [f"{step:{left}}" + "".join(f"{n_bytes:>15,d}" for n_bytes in row) for step, row in self.rows]
        return "\n".join(lines)


def two_by_two(gpu: GPU) -> dict[str, int]:
    """`memory_allocated` after each line of a program that squares a 2x2 matrix and calls backward.

    Unit:   bytes.
    """
    readings = {"(nothing yet)": gpu.memory_allocated()}
    x = torch.ones(2, 2, device=gpu.device, requires_grad=True)
    readings["x = torch.ones(2, 2)"] = gpu.memory_allocated()
    y = x @ x
    readings["y = x @ x"] = gpu.memory_allocated()
    g = torch.ones(2, 2, device=gpu.device)
    readings["g = torch.ones(2, 2)"] = gpu.memory_allocated()
    y.backward(g)
    readings["y.backward(g)"] = gpu.memory_allocated()
    return readings


def fragmented(gpu: GPU) -> dict[str, torch.Tensor]:
    """Twelve tensors of 5 MiB are made, "0" to "11", and the even ones deleted; returns the odd ones."""
    tensors = {str(n): tensor_of(gpu, 5 * MiB) for n in range(12)}
    return {name: tensor for name, tensor in tensors.items() if int(name) % 2}


@dataclass(frozen=True)
class Placed:
    """Where in a simulated GPU's trace a forward pass ends, and the allocation of each storage that it keeps."""

    trace: Trace
    position: int
    allocations: dict[int, int]

    @classmethod
    def of(cls, gpu: GPU, rows: Iterable[SavedTensor]) -> "Placed | None":
        """As it is now; None on a GPU of this machine, whose trace has no storages."""
        if not isinstance(gpu, SimulatedGPU):
            return None
        numbers = {row.storage: RECORDS[row.storage].number for row in rows if row.storage in RECORDS}
        return cls(gpu.trace, len(gpu.trace.events), numbers)


@dataclass(frozen=True)
class Forward:
    """What one forward pass leaves on a GPU.

    Counts: `saved_bytes`: what autograd keeps, each storage once, without the parameters; `rows`: the same, slot by
        slot; `allocated_bytes`: by how much the allocator's current bytes grew, in whole blocks, the output included;
        `placed`: where that was simulated.
    Unit:   bytes.
    """

    gpu: str
    origin: str
    rows: tuple[SavedTensor, ...]
    saved_bytes: int
    allocated_bytes: int
    output_bytes: int
    placed: Placed | None = field(repr=False, compare=False)

    @property
    def trace(self) -> Trace:
        """That of the simulated GPU that it ran on."""
        return self._simulated.trace

    def moment(self, formula: Formula, rows: Iterable[SavedTensor], stage: str = "") -> Moment:
        """Its end, with what each term of a formula keeps of these rows.

        Raises: ValueError for one that ran on this machine's own GPU, and as `Formula.account`.
        """
        placed, kept = self._simulated, formula.kept(rows)
        where = placed.allocations
        numbers = {term: [where[row.storage] for row in rows if row.storage in where] for term, rows in kept.items()}
        others = {
            term: sum(row.storage_bytes for row in rows if row.storage not in where) for term, rows in kept.items()
        }
        return Moment(stage, placed.position, numbers, {term: n_bytes for term, n_bytes in others.items() if n_bytes})

    @property
    def _simulated(self) -> Placed:
        if self.placed is None:
            raise ValueError(f"the GPU must be a simulated one: got {self.gpu}, which knows no storages.")
        return self.placed

    @property
    def figures(self) -> dict[str, int]:
        """The bytes by name."""
        return {"allocated": self.allocated_bytes, "saved for backward": self.saved_bytes}


def mlp_forward(
    gpu: GPU,
    *,
    b: int,
    s: int,
    d: int,
    activation: str = "relu",
    dropout: float = 0.0,
    dtype: torch.dtype = torch.bfloat16,
    bias: bool = True,
) -> Forward:
    """Run an `MLP` forward on an open GPU; its parameters and its input all require grad.

    Shapes: x[b,s,d] -> y[b,s,d]
    Raises: ValueError for a size that is no positive integer; torch.OutOfMemoryError if it does not fit.
    """
    check_positive(b=b, s=s, d=d)
    mlp = MLP(d, activation, dropout, gpu.device, dtype, bias=bias)
    x = torch.empty(b, s, d, device=gpu.device, dtype=dtype, requires_grad=True)
    with AllocatedMemContext(gpu) as mem, SavedTensorContext(mlp.parameters()) as saved:
        y = mlp(x)
    rows = tuple(saved.rows(y))
    return Forward(
        gpu.name, gpu.origin, rows, saved.saved_tensor_mem, mem.delta["current"], y.nbytes, Placed.of(gpu, rows)
    )


def gated_rows(
    *, b: int, s: int, d: int, w: int, e: int, function: Callable[[torch.Tensor], torch.Tensor] = nn.functional.silu
) -> list[SavedTensor]:
    """What a `GatedMLP` of hidden width w keeps after forward on a simulated GPU, slot by slot.

    Shapes: x[b,s,d], of e bytes each, 2 or 4 -> y[b,s,d]
    """
    dtype = {2: torch.bfloat16, 4: torch.float32}[e]
    with SimulatedGPU("a100-80gb") as gpu:
        layer = GatedMLP(d, w, gpu.device, dtype, function)
        x = torch.empty(b, s, d, device=gpu.device, dtype=dtype, requires_grad=True)
        with SavedTensorContext(layer.parameters()) as saved:
            y = layer(x)
        return saved.rows(y)


def kept(
    function: Callable[..., torch.Tensor], *inputs: torch.Tensor, weights: Sequence[torch.Tensor] = ()
) -> list[str]:
    """What `function(*inputs, *weights)` keeps for backward, as operation and slot: ["Mm.self", "Relu.result"].

    Counts: slots, not storages; neither the weights nor views of them.
    """
    with SavedTensorContext(weights) as saved:
        y = function(*inputs, *weights)
    rows = saved.rows(y) if y.requires_grad else []
    return [f"{row.node.split('Backward')[0]}.{row.slot}" for row in rows]


def forward_alone(
    gpu: GPU, mode: Callable[[], AbstractContextManager[Any]], *, training: bool = True
) -> tuple[int, int]:
    """Run a `LinearStack` forward with b=64: by how much the peak rises, and how many bytes stay allocated.

    `mode` is torch.no_grad or similar; `training` is the module's mode, as `train()` and `eval()` set it.

    Shapes: x[64, 100] -> [64, 100] (201 times) -> y[64, 10]
    Counts: neither the parameters nor the input; the bytes that stay do not include the output.
    Unit:   bytes, of whole blocks.
    """
    stack = LinearStack(device=gpu.device).train(training)
    x = torch.empty(64, 100, device=gpu.device)
    gpu.load_libraries()
    gpu.reset_peak_memory_stats()
    before_bytes = gpu.memory_allocated()
    with mode():
        y = stack(x)
    return gpu.max_memory_allocated() - before_bytes, gpu.memory_allocated() - before_bytes - y.nbytes


def train_stack(
    gpu: GPU,
    *,
    b: int = 64,
    d: int = 100,
    n_in: int = 100,
    n_out: int = 10,
    n_hidden: int = 200,
    relu: bool = False,
    frozen: range = range(0),
    optimizer: str = "Adam",
    n_iterations: int = 3,
    dtype: torch.dtype = torch.float32,
) -> Readings:
    """Train a `LinearStack` on an open GPU and read its memory after each phase; `optimizer` is one of OPTIMIZERS.

    Shapes: x[b, n_in] -> [b, d] (n_hidden + 1 times) -> y[b, n_out]
    Raises: ValueError as `LinearStack` and `train_in_phases` do; torch.OutOfMemoryError if it does not fit.
    """
    check_positive(b=b)
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer must be one of {'; '.join(OPTIMIZERS)}: got optimizer={optimizer!r}.")
    return train_in_phases(
        gpu,
        lambda: LinearStack(n_in, d, n_out, n_hidden, relu=relu, frozen=frozen, device=gpu.device, dtype=dtype),
        lambda: torch.empty(b, n_in, device=gpu.device, dtype=dtype),
        OPTIMIZERS[optimizer],
        n_iterations=n_iterations,
    )

"""The book's experiments: programs for an open GPU, simulated or live, and what they leave behind."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import torch

from every_byte.ledger.readings import Readings
from every_byte.ledger.saved_tensors import SavedTensor
from utils.contexts import AllocatedMemContext, SavedTensorContext
from utils.layers import MLP, LinearStack, check_positive

from .training import train_in_phases

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": torch.optim.SGD,
    "SGD with momentum": partial(torch.optim.SGD, momentum=0.9),
    "Adam": torch.optim.Adam,
    "Adam, fused": partial(torch.optim.Adam, fused=True),
}


@dataclass(frozen=True)
class Forward:
    """What one forward pass left behind on a GPU.

    Counts: `saved_bytes`: what autograd keeps, each storage once, without the parameters; `rows`: the same, slot by
        slot; `allocated_bytes`: by how much the allocator's current bytes grew, in whole blocks, the output included.
    Unit:   bytes.
    """

    gpu: str
    origin: str
    rows: tuple[SavedTensor, ...]
    saved_bytes: int
    allocated_bytes: int
    output_bytes: int

    @property
    def figures(self) -> dict[str, int]:
        """The bytes by name."""
        return {"allocated": self.allocated_bytes, "saved for backward": self.saved_bytes}


def mlp_forward(
    gpu,
    *,
    b: int,
    s: int,
    d: int,
    activation: str = "relu",
    dropout: float = 0.0,
    dtype: torch.dtype = torch.bfloat16,
    bias: bool = True,
) -> Forward:
    """Forward through an `MLP` on an open GPU, whose parameters and input all require grad.

    Shapes: x[b,s,d] -> y[b,s,d]
    Raises: ValueError for a size that is no positive integer; torch.OutOfMemoryError if it does not fit.
    """
    check_positive(b=b, s=s, d=d)
    mlp = MLP(d, activation, dropout, gpu.device, dtype, bias=bias)
    x = torch.empty(b, s, d, device=gpu.device, dtype=dtype, requires_grad=True)
    with AllocatedMemContext(gpu) as mem, SavedTensorContext(mlp.parameters()) as saved:
        y = mlp(x)
    return Forward(
        gpu.name, gpu.origin, tuple(saved.rows(y)), saved.saved_tensor_mem, mem.delta["current"], y.numel() * y.itemsize
    )


def kept(function: Callable[..., torch.Tensor], *inputs: torch.Tensor, weights: Sequence[torch.Tensor] = ()) -> str:
    """Which operations of `function(*inputs, *weights)` keep a tensor, in which slot: "Mm.self, Relu.result".

    Counts: slots, not storages; not the weights, nor views of them.
    """
    with SavedTensorContext(weights) as saved:
        y = function(*inputs, *weights)
    rows = saved.rows(y) if y.requires_grad else []
    return ", ".join(f"{row.node.split('Backward')[0]}.{row.slot}" for row in rows) or "nothing"


def forward_alone(gpu, mode: Callable[[], AbstractContextManager], *, training: bool = True) -> tuple[int, int]:
    """Forward of a `LinearStack` with b=64 on an open GPU: how far it raises the peak, and what it leaves behind.

    `mode` is torch.no_grad or the like; `training` is the module's mode, as `train()` and `eval()` set it.

    Shapes: x[64, 100] -> [64, 100] (201 times) -> y[64, 10]
    Counts: neither the parameters nor the input, and in what it leaves not the output.
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
    gpu,
    *,
    b: int = 64,
    d: int = 100,
    n_hidden: int = 200,
    relu: bool = False,
    frozen: range = range(0),
    optimizer: str = "Adam",
    n_iterations: int = 3,
    dtype: torch.dtype = torch.float32,
) -> Readings:
    """Train a `LinearStack` on an open GPU, and read its memory after each phase; `optimizer` is one of OPTIMIZERS.

    Shapes: x[b, d] -> [b, d] (n_hidden + 1 times) -> y[b, 10]
    Raises: ValueError as `LinearStack` and `train_in_phases` do; torch.OutOfMemoryError if it does not fit.
    """
    check_positive(b=b)
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer must be one of {'; '.join(OPTIMIZERS)}: got optimizer={optimizer!r}.")
    return train_in_phases(
        gpu,
        lambda: LinearStack(d, d, 10, n_hidden, relu=relu, frozen=frozen, device=gpu.device, dtype=dtype),
        lambda: torch.empty(b, d, device=gpu.device, dtype=dtype),
        OPTIMIZERS[optimizer],
        n_iterations=n_iterations,
    )

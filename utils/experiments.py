"""The book's experiments: the same PyTorch function on a simulated and on a live GPU, and what each says of it."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from .contexts import AllocatedMemContext, SavedTensorContext
from .device import LiveGPU, SimulatedGPU
from .layers import MLP, check_positive
from .saved_tensors import SavedTensor


@dataclass(frozen=True)
class Forward:
    """What one forward pass left behind on a GPU; it holds no tensor, so nothing stays alive because of it.

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


def live_beside_simulated(experiment: Callable[..., Forward], **settings) -> str:
    """Run an experiment on this machine's own GPU, if it has one, and on a simulation of that GPU; say what each found.

    Raises: whatever the experiment raises, out of memory too.
    """
    if not torch.cuda.is_available():
        return "PyTorch sees no GPU on this machine: the simulated figures stand alone."
    live = LiveGPU()
    measured = experiment(live, **settings)
    with SimulatedGPU(live.spec) as gpu:
        simulated = experiment(gpu, **settings)
    off = measured.allocated_bytes - simulated.allocated_bytes
    return (
        f"{live.name}: measured {measured.allocated_bytes:,d} bytes allocated (PyTorch {torch.__version__}), simulated "
        f"{simulated.allocated_bytes:,d} (PyTorch {live.spec.torch_version} rules): {off:+,d}; saved for backward "
        f"{measured.saved_bytes:,d} and {simulated.saved_bytes:,d}."
    )

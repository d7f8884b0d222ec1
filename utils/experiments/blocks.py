"""A transformer block's forward pass on an open GPU: what it keeps there, by autograd's count and the allocator's."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from every_byte.gpu.protocol import GPU
from utils.contexts import AllocatedMemContext, SavedTensorContext
from utils.layers import Block, check_positive

from .first_programs import Forward, Placed
from .readings import requested
from .step_run import one_at_a_time

_PYTORCH_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]

_BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
_NODES = {
    "ScaledDotProductFlash": "flash",
    "ScaledDotProductEfficient": "efficient",
    "ScaledDotProductCudnn": "cudnn",
    "Softmax": "explicit",
}


@contextlib.contextmanager
def without_cudnn() -> Iterator[None]:
    """Attention by PyTorch's own kernels: what cuDNN's takes to work in is decided inside of it, on the card alone."""
    with one_at_a_time, sdpa_kernel(_PYTORCH_KERNELS):
        yield


@dataclass(frozen=True)
class BlockForward(Forward):
    """What one forward pass of a block left behind on a GPU.

    Counts: as `Forward`; `requested_bytes`: by how much the allocator's current requests grew, unrounded, the output
            included.
    Unit:   bytes.
    """

    requested_bytes: int

    @property
    def attention(self) -> str:
        """The attention that ran, by its name in utils.formulas.block."""
        for row in self.rows:
            for node, name in _NODES.items():
                if row.node.startswith(node):
                    return name
        raise ValueError("attention is one of utils.formulas.block here: got PyTorch's math kernel; try bfloat16.")

    @property
    def figures(self) -> dict[str, int]:
        """The bytes by name."""
        return {"requested": self.requested_bytes, **super().figures}


def block_forward(
    gpu: GPU,
    *,
    b: int,
    s: int,
    d: int,
    a: int,
    activation: str | nn.Module = "relu",
    attention: str | None = None,
    dropout: float = 0.0,
    dtype: torch.dtype = torch.bfloat16,
    bias: bool = True,
) -> BlockForward:
    """Forward through a `Block` of a heads on an open GPU, whose parameters and input all require grad.

    `attention` is "flash", "efficient", "cudnn" or "explicit"; if None, PyTorch chooses the kernel.

    Shapes: x[b,s,d] -> y[b,s,d]
    Raises: ValueError for a size that is not a positive integer, an a that does not divide d and an unknown
            attention; RuntimeError for an attention without a kernel for these shapes on this GPU;
            torch.OutOfMemoryError if it does not fit.
    """
    check_positive(b=b, s=s, d=d, a=a)
    if attention not in (None, "explicit", *_BACKENDS):
        raise ValueError(f"attention must be one of explicit, {', '.join(_BACKENDS)}: got attention={attention!r}.")
    kind = "explicit" if attention == "explicit" else "sdpa"
    block = Block(d, a, activation, dropout, gpu.device, dtype, kind=kind, context_length=s, bias=bias)
    x = torch.empty(b, s, d, device=gpu.device, dtype=dtype, requires_grad=True)
    chosen = sdpa_kernel(_BACKENDS[attention]) if attention in _BACKENDS else contextlib.nullcontext()
    with one_at_a_time, chosen, AllocatedMemContext(gpu) as mem, SavedTensorContext(block.parameters()) as saved:
        before_bytes = requested(gpu)
        y = block(x)
        requested_bytes = requested(gpu) - before_bytes
    rows = tuple(saved.rows(y))
    return BlockForward(
        gpu.name,
        gpu.origin,
        rows,
        saved.saved_tensor_mem,
        mem.delta["current"],
        y.nbytes,
        Placed.of(gpu, rows),
        requested_bytes,
    )

"""The programs of Liger-Kernel's benchmark that run PyTorch's and Hugging Face's own code, written anew.

Each peak is that of the last of ten runs, forward and backward or one of both, each after a reset: as the benchmark's
median is, since all runs but the first are alike.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

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


# --------------------------------------------------------------------------------------------------------------- losses


def cross_entropy(gpu, V: int, B: int, T: int, mode: str) -> int:
    """`nn.CrossEntropyLoss` of float32 logits, [B T, V]."""
    logits = torch.randn(B * T, V, requires_grad=True, device=gpu.device)
    targets = torch.randint(V, (B * T, 1), device=gpu.device).squeeze(1)
    loss = nn.CrossEntropyLoss()
    return peak(gpu, lambda: loss(logits, targets).backward())


def kl_div(gpu, V: int, B: int, T: int, mode: str) -> int:
    """`nn.KLDivLoss` of log-probabilities and probabilities, [B T, V]."""
    x = torch.randn(B * T, V, requires_grad=True, device=gpu.device).log_softmax(dim=-1)
    target = torch.randn(B * T, V, device=gpu.device).softmax(dim=-1)
    loss = nn.KLDivLoss(reduction="batchmean")
    return peak(gpu, lambda: loss(x, target).backward(retain_graph=True))


# ------------------------------------------------------------------------------------------------------- normalizations


class _RMSNorm(nn.Module):
    """As Llama's in Hugging Face's transformers."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x.to(dtype)


def _of_norm(gpu, norms: list[nn.Module], shape: tuple[int, ...], dtype: str, mode: str) -> int:
    """The last of these, which were all brought to the GPU, of an input whose gradient was made before."""
    x = torch.randn(shape, dtype=DTYPES[dtype], device=gpu.device)
    gradient = torch.randn_like(x)
    x.requires_grad_(True)
    return by_mode(gpu, mode, lambda: norms[-1](x), gradient)


def rms_norm(gpu, H: int, M: int, dtype: str, eps: float, mode: str) -> int:
    """Llama's RMSNorm of [M, H]; the benchmark has a second one's weight on the card."""
    norms = [_RMSNorm(H, eps).to(gpu.device) for _ in range(2)]
    return _of_norm(gpu, norms, (M, H), dtype, mode)


def layer_norm(gpu, N: int, M: int, dtype: str, eps: float, mode: str) -> int:
    """`nn.LayerNorm` of [M, N], beside a second one."""
    norms = [nn.LayerNorm(N, eps=eps).to(gpu.device) for _ in range(2)]
    return _of_norm(gpu, norms, (M, N), dtype, mode)


def group_norm(gpu, C: int, M: int, H: int, channels_per_group: int, dtype: str, eps: float, mode: str) -> int:
    """`nn.GroupNorm` of [M, C, H], beside a second one: forward and backward, whatever the row calls its mode."""
    norms = [nn.GroupNorm(C // channels_per_group, C, eps=eps).to(gpu.device) for _ in range(2)]
    return _of_norm(gpu, norms, (M, C, H), dtype, "full")


# ----------------------------------------------------------------------------------------------------------------- MLPs


class _MLP(nn.Module):
    """Llama's, gated, by whatever function."""

    def __init__(self, width: int, hidden: int, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.function(self.gate(x)) * self.up(x))


FUNCTIONS = {"gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu}


def gated_mlp(
    gpu,
    T: int,
    bsz: int,
    hidden_size: int,
    intermediate_size: int,
    hidden_act: str,
    dtype: str,
    mode: str,
    after: str = "",
) -> int:
    """Llama's MLP of [bsz, T, hidden_size]; `after` is the mode that the same process measured before."""
    if after:
        gated_mlp(gpu, T, bsz, hidden_size, intermediate_size, hidden_act, dtype, after)
    x = torch.randn(bsz, T, hidden_size, device=gpu.device, dtype=DTYPES[dtype], requires_grad=True)
    layer = _MLP(hidden_size, intermediate_size, FUNCTIONS[hidden_act]).to(gpu.device).to(DTYPES[dtype])
    return by_mode(gpu, mode, lambda: layer(x), torch.randn_like(x) if mode == "backward" else None)

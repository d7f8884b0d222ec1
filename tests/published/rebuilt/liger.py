"""Losses, normalizations and activations of Liger-Kernel's benchmark in PyTorch's own code, written anew."""

import torch
import torch.nn.functional as F
from torch import nn

from .liger_measure import DTYPES, by_mode, peak

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


def jsd(gpu, V: int, B: int, T: int, mode: str) -> int:
    """The Jensen-Shannon divergence of two tensors of log-probabilities, [B T, V]."""
    log_q = torch.randn(B * T, V, requires_grad=True, device=gpu.device).log_softmax(dim=-1)
    log_p = torch.randn(B * T, V, device=gpu.device).log_softmax(dim=-1)
    return peak(gpu, lambda: divergence(log_q, log_p).backward(retain_graph=True))


def divergence(log_q: torch.Tensor, log_p: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Jensen and Shannon's, of log-probabilities: half of one divergence from the mean and half of the other."""
    kl = nn.KLDivLoss(reduction="batchmean", log_target=True)
    log_p, log_q = log_p.to(torch.float), log_q.to(torch.float)
    mean = torch.lerp(torch.exp(log_p), torch.exp(log_q), 0.5)
    return (0.5 * kl(torch.log(mean), log_p) + 0.5 * kl(torch.log(mean), log_q)).to(dtype)


def tvd(gpu, V: int, B: int, T: int, mode: str) -> int:
    """The total variation distance of two tensors of probabilities, [B T, V]."""
    p = torch.randn(B * T, V, requires_grad=True, device=gpu.device).softmax(dim=-1)
    q = torch.randn(B * T, V, device=gpu.device).softmax(dim=-1)
    return peak(gpu, lambda: (0.5 * torch.abs(p - q)).sum(dim=-1).mean().backward(retain_graph=True))


def vocab_parallel_cross_entropy(gpu, V: int, S: int, B: int, TP: int, mode: str) -> int:
    """Megatron's cross entropy without fusion, of bfloat16 logits [S, B, V], on one rank."""
    logits = torch.randn(S, B, V, device=gpu.device, dtype=torch.bfloat16, requires_grad=True)
    target = torch.randint(0, V, (S, B), device=gpu.device, dtype=torch.long)

    def full() -> None:
        logits.grad = None
        y = _VocabParallel.apply(logits, target)
        y.sum().backward()

    return peak(gpu, full)


class _VocabParallel(torch.autograd.Function):
    """Megatron's: softmax in place in a float32 copy of the logits, which backward makes the gradient of."""

    @staticmethod
    def forward(ctx, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        logits = logits.float()
        maximum = torch.max(logits, dim=-1)[0]
        logits -= maximum.unsqueeze(dim=-1)
        outside = (target < 0) | (target >= logits.size(-1))
        masked = target.clone() - 0
        masked[outside] = 0
        rows = logits.view(-1, logits.size(-1))
        flat = masked.view(-1)
        at = torch.arange(start=0, end=rows.size(0), device=rows.device)
        predicted = rows[at, flat].clone().contiguous().view_as(target)
        predicted[outside] = 0.0
        exponentials = logits
        torch.exp(logits, out=exponentials)
        sums = exponentials.sum(dim=-1)
        loss = torch.log(sums) - predicted
        exponentials.div_(sums.unsqueeze(dim=-1))
        ctx.save_for_backward(exponentials, outside, flat)
        return loss

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        softmax, outside, flat = ctx.saved_tensors
        rows = softmax.view(-1, softmax.size(-1))
        at = torch.arange(start=0, end=rows.size(0), device=rows.device)
        rows[at, flat] -= 1.0 - outside.view(-1).float()
        softmax.mul_(gradient.unsqueeze(dim=-1))
        return softmax, None


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
    """`nn.LayerNorm` of [M, N], next to a second one."""
    norms = [nn.LayerNorm(N, eps=eps).to(gpu.device) for _ in range(2)]
    return _of_norm(gpu, norms, (M, N), dtype, mode)


def group_norm(gpu, C: int, M: int, H: int, channels_per_group: int, dtype: str, eps: float, mode: str) -> int:
    """`nn.GroupNorm` of [M, C, H], next to a second one: forward and backward, whatever the row calls its mode."""
    norms = [nn.GroupNorm(C // channels_per_group, C, eps=eps).to(gpu.device) for _ in range(2)]
    return _of_norm(gpu, norms, (M, C, H), dtype, "full")


class AddRMSNorm(nn.Module):
    """A sum with the residual, then RMSNorm, in float32; the result and the sum, in the input's type."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        dtype = x.dtype
        x = x.to(torch.float32)
        residual = residual.to(torch.float32)
        x = x + residual
        residual = x
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x.to(dtype), residual.to(dtype)


def add_rms_norm(gpu, H: int, M: int, dtype: str, eps: float, mode: str) -> int:
    """Both results of the sum and its RMSNorm go backward; two other norms, of three weights, are on the card."""
    norms = [AddRMSNorm(H, eps).to(gpu.device) for _ in range(4)]
    x, residual = (torch.randn(M, H, dtype=DTYPES[dtype], device=gpu.device) for _ in range(2))
    gradients = torch.randn_like(x), torch.randn_like(residual)
    x.requires_grad_(True)
    residual.requires_grad_(True)
    return peak(gpu, lambda: torch.autograd.backward(norms[-1](x, residual), gradients))


def megatron_rms_norm(gpu, H: int, S: int, B: int, mode: str, wrapped: bool = False) -> int:
    """`nn.RMSNorm` of bfloat16, [S, B, H], and backward from the sum; Megatron's `wrapped` one is the same."""
    layer = nn.RMSNorm(H, eps=1e-6).to(gpu.device).to(torch.bfloat16)
    x = torch.randn(S, B, H, device=gpu.device, dtype=torch.bfloat16, requires_grad=True)

    def full() -> None:
        y = layer(x)
        y.sum().backward()

    return peak(gpu, full)


# ---------------------------------------------------------------------------------------------------------- activations


def megatron_swiglu(gpu, ffn_local: int, S: int, B: int, mode: str) -> int:
    """SwiGLU of one tensor's halves, [S, B, 2 ffn_local], and backward from the sum."""
    x = torch.randn(S, B, 2 * ffn_local, device=gpu.device, dtype=torch.bfloat16, requires_grad=True)

    def full() -> None:
        x.grad = None
        gate, up = torch.chunk(x, 2, -1)
        y = F.silu(gate) * up
        y.sum().backward()

    return peak(gpu, full)


def softmax_of_a_vector(gpu, N: int, M: int, dtype: str, mode: str) -> int:
    """`nn.Softmax` of N numbers: the benchmark makes a vector of them, whatever M is."""
    return _of_numbers(gpu, nn.Softmax(dim=-1), N, dtype)


def relu_squared(gpu, N: int, M: int, dtype: str, mode: str) -> int:
    """The square of ReLU, of N numbers, as above."""
    return _of_numbers(gpu, lambda x: torch.square(F.relu(x)), N, dtype)


def _of_numbers(gpu, function, n: int, dtype: str) -> int:
    x = torch.randn(n, device=gpu.device, dtype=DTYPES[dtype], requires_grad=True)

    def full() -> None:
        y = function(x)
        y.backward(torch.ones_like(y), retain_graph=True)

    return peak(gpu, full)


def embedding(gpu, V: int, B: int, T: int, D: int, dtype: str, mode: str) -> int:
    """`nn.Embedding` of [B, T] tokens, next to a second one."""
    layers = [nn.Embedding(V, D).to(gpu.device).to(DTYPES[dtype]) for _ in range(2)]
    tokens = torch.randint(0, V, (B, T), device=gpu.device)

    def full() -> None:
        y = layers[0](tokens)
        y.backward(torch.randn_like(y))

    return peak(gpu, full)

"""Attention, sparsemax and rotary embeddings of Liger-Kernel's benchmark in PyTorch's own code, written anew."""

import torch
import torch.nn.functional as F
from torch import nn

from .liger_measure import DTYPES, by_mode, peak


def _full(gpu, forward, x: torch.Tensor, gradient: torch.Tensor) -> int:
    """The peak of forward and backward of an input whose gradient was made before."""

    def full() -> None:
        y = forward(x)
        y.backward(gradient, retain_graph=True)

    return peak(gpu, full)


def _input(gpu, shape: tuple[int, ...], dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(shape, dtype=DTYPES[dtype], device=gpu.device)
    gradient = torch.randn_like(x)
    return x.requires_grad_(True), gradient


def by_sparsemax(x: torch.Tensor) -> torch.Tensor:
    """Sparsemax of the last dimension by a sort and a sum over the sorted."""
    ordered, _ = torch.sort(x, dim=-1, descending=True)
    cumulated = torch.cumsum(ordered, dim=-1)
    n = x.size(-1)
    numbers = torch.arange(1, n + 1, device=x.device, dtype=x.dtype)
    numbers = numbers.view(1, n)
    bound = 1 + numbers * ordered
    support = bound > cumulated
    k = support.sum(dim=-1, keepdim=True).clamp(min=1)
    total = (ordered * support).sum(dim=-1, keepdim=True)
    tau = (total - 1) / k
    return torch.clamp(x - tau, min=0)


def sparsemax(gpu, V: int, B: int, T: int, dtype: str, mode: str) -> int:
    """Sparsemax of [B T, V] by a sort and a sum over the sorted."""
    return _full(gpu, by_sparsemax, *_input(gpu, (B * T, V), dtype))


class _MultiToken(nn.Module):
    """Causal attention weights under a convolution, and its mask again."""

    def __init__(self, channels: int, kernel: int, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        shape = (channels, channels, kernel, kernel)
        self.weight = nn.Parameter(torch.empty(shape, dtype=dtype, device=device))
        self.bias = nn.Parameter(torch.empty(channels, dtype=dtype, device=device))
        self.kernel = kernel

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        n = scores.shape[-1]
        mask = torch.tril(torch.ones(n, n, dtype=torch.bool, device=scores.device)).view(1, 1, n, n)
        low = torch.tensor(-1e9, device=scores.device, dtype=scores.dtype)
        zero = torch.tensor(0.0, device=scores.device, dtype=scores.dtype)
        masked = scores.masked_fill(~mask, low)
        weights = F.softmax(masked, dim=-1)
        mixed = F.conv2d(weights, self.weight, self.bias, stride=1, padding=self.kernel // 2)
        return mixed.masked_fill(~mask, zero)


class _SparseMultiToken(_MultiToken):
    """The same with sparsemax instead of softmax."""

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        n = scores.shape[-1]
        mask = torch.tril(torch.ones(n, n, dtype=torch.bool, device=scores.device)).view(1, 1, n, n)
        low = torch.tensor(-1e9, device=scores.device, dtype=torch.float32)
        zero = torch.tensor(0.0, device=scores.device, dtype=torch.float32)
        z = scores.to(torch.float32).masked_fill(~mask, low)
        ordered, _ = torch.sort(z, dim=-1, descending=True)
        cumulated = torch.cumsum(ordered, dim=-1)
        numbers = torch.arange(1, n + 1, device=z.device, dtype=z.dtype).view(1, 1, 1, n)
        positive = ordered > -1e8
        condition = (1 + numbers * ordered > cumulated) & positive
        k = torch.sum(condition, dim=-1, keepdim=True)
        safe = torch.max(k, torch.ones_like(k))
        of_k = torch.gather(cumulated, dim=-1, index=safe.long() - 1)
        tau = (of_k - 1) / safe.to(z.dtype)
        tau = torch.where(k == 0, torch.full_like(tau, float("inf")), tau)
        weights = torch.clamp(z - tau, min=0)
        weight, bias = self.weight.to(torch.float32), self.bias.to(torch.float32)
        mixed = F.conv2d(weights, weight, bias, stride=1, padding=self.kernel // 2)
        return mixed.masked_fill(~mask, zero).to(scores.dtype)


def multi_token(gpu, L: int, B: int, C_in: int, K: int, dtype: str, sparse: bool, mode: str) -> int:
    """Multi-token attention of scores, [B, C_in, L, L], next to a second layer."""
    kind = _SparseMultiToken if sparse else _MultiToken
    layers = [kind(C_in, K, DTYPES[dtype], gpu.device) for _ in range(2)]
    return _full(gpu, layers[1], *_input(gpu, (B, C_in, L, L), dtype))


class _Neighborhood(nn.Module):
    """Attention of every token to all, with a mask of which we leave out all but its making."""

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.n_heads = n_heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, width = x.shape
        q, k, v = self.q(x), self.k(x), self.v(x)
        q = q.view(b, s, self.n_heads, -1).transpose(1, 2)
        k = k.view(b, s, self.n_heads, -1).transpose(1, 2)
        v = v.view(b, s, self.n_heads, -1).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) * (width // self.n_heads) ** -0.5
        mask = torch.zeros(s, s, device=x.device, dtype=torch.bool)
        scores = scores.masked_fill(~mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        mixed = torch.matmul(weights, v)
        mixed = mixed.transpose(1, 2).contiguous().view(b, s, width)
        return self.out(mixed)


def neighborhood(
    gpu, seq_len: int, batch_size: int, hidden_size: int, num_heads: int, kernel_size: int, dilation: int, dtype: str,
    mode: str,
) -> int:  # fmt: skip
    """Attention to a neighborhood by a mask, of [batch_size, seq_len, hidden_size], next to a second layer."""
    layers = [_Neighborhood(hidden_size, num_heads).to(gpu.device).to(DTYPES[dtype]) for _ in range(2)]
    return _full(gpu, layers[1], *_input(gpu, (batch_size, seq_len, hidden_size), dtype))


# --------------------------------------------------------------------------------------------------- rotary embeddings


def _half_turned(x: torch.Tensor) -> torch.Tensor:
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), dim=-1)


class _Rope:
    """Llama's rotary embedding of queries and keys, [1, heads, seq_len, width]: cosines and sines made once."""

    def __init__(self, gpu, hidden_size: int, seq_len: int, num_q_heads: int, num_kv_heads: int, dtype: str) -> None:
        width, device, kind = hidden_size // num_q_heads, gpu.device, DTYPES[dtype]
        self.frequencies = 1.0 / (10000 ** (torch.arange(0, width, 2, dtype=torch.int64).float().to(device) / width))
        of = dict(device=device, requires_grad=True, dtype=kind)
        self.q = torch.randn((1, seq_len, num_q_heads, width), **of).transpose(1, 2)
        self.k = torch.randn((1, seq_len, num_kv_heads, width), **of).transpose(1, 2)
        self.positions = torch.arange(seq_len, device=device, dtype=torch.long).unsqueeze(0)
        angles = self.frequencies[None, :, None].float() @ self.positions[:, None, :].float()
        angles = angles.transpose(1, 2)
        both = torch.cat((angles, angles), dim=-1)
        self.cos, self.sin = both.cos().to(kind), both.sin().to(kind)

    def __call__(self) -> tuple[torch.Tensor, torch.Tensor]:
        cos, sin = self.cos.unsqueeze(1), self.sin.unsqueeze(1)
        q = (self.q * cos) + (_half_turned(self.q) * sin)
        k = (self.k * cos) + (_half_turned(self.k) * sin)
        return q, k


def rope(gpu, hidden_size: int, seq_len: int, num_q_heads: int, num_kv_heads: int, dtype: str, mode: str) -> int:
    """The rotary embedding and the gradients of queries and keys, whose results' gradients are made before."""
    layer = _Rope(gpu, hidden_size, seq_len, num_q_heads, num_kv_heads, dtype)
    gradients = torch.randn_like(layer.q), torch.randn_like(layer.k)

    def full() -> None:
        results = layer()
        torch.autograd.grad(results, (layer.q, layer.k), gradients, retain_graph=True)

    return peak(gpu, full)


def rope_of_queries(
    gpu, hidden_size: int, seq_len: int, num_q_heads: int, num_kv_heads: int, dtype: str, mode: str
) -> int:
    """The same of the newer benchmark: the queries alone go backward, and are leaves behind a transpose."""
    layer = _Rope(gpu, hidden_size, seq_len, num_q_heads, num_kv_heads, dtype)
    del layer.positions, layer.frequencies
    return by_mode(gpu, mode, lambda: layer()[0])

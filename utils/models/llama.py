"""A model of today, in Llama's shape: RMSNorm, rotary positions, grouped queries, a gated MLP, a head of its own."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.types import Device

from every_byte.remedies.losses import Loss, whole_logits
from utils.layers import Run, check_positive

from .gated import GatedMLP

SIZES: dict[str, dict[str, Any]] = {
    "llama-2-7b": {"vocabulary_size": 32_000, "d_model": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 32,
                   "d_mlp": 11_008, "rope_theta": 10_000.0},
    "llama-3-8b": {"vocabulary_size": 128_256, "d_model": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8,
                   "d_mlp": 14_336, "rope_theta": 500_000.0},
    "llama-3-70b": {"vocabulary_size": 128_256, "d_model": 8192, "n_layers": 80, "n_heads": 64, "n_kv_heads": 8,
                    "d_mlp": 28_672, "rope_theta": 500_000.0},
    "llama-3.2-1b": {"vocabulary_size": 128_256, "d_model": 2048, "n_layers": 16, "n_heads": 32, "n_kv_heads": 8,
                     "d_mlp": 8192, "rope_theta": 500_000.0, "is_tied": True},
    "llama-3.2-3b": {"vocabulary_size": 128_256, "d_model": 3072, "n_layers": 28, "n_heads": 24, "n_kv_heads": 8,
                     "d_mlp": 8192, "rope_theta": 500_000.0, "is_tied": True},
}  # fmt: skip
"""Public models under the names that they are known by, as their configurations have them."""

_LETTERS = {
    "V": "vocabulary_size", "d": "d_model", "L": "n_layers", "a": "n_heads", "g": "n_kv_heads", "f": "d_mlp",
}  # fmt: skip
_STANDARD_DEVIATION = 0.02  # of the weights of a fresh model
_EPS = 1e-5


def letters(name: str) -> dict[str, int]:
    """The letters V, d, L, a, g and f of one of the public sizes, as formulas take them.

    Raises: ValueError for an unknown name.
    """
    _check_name(name)
    return {letter: SIZES[name][size] for letter, size in _LETTERS.items()}


def _check_name(name: str) -> None:
    if name not in SIZES:
        raise ValueError(f"name must be one of {', '.join(SIZES)}: got name={name!r}.")


class Llama(nn.Module):
    """Llama's shape: `tokens` (Embedding), `blocks`, `norm` (RMSNorm) and `head` (Linear), without a bias anywhere.

    `kind` is that of attention: "sdpa" or "explicit". `is_tied`: the head's weight is the embedding's. Called with
    targets, it returns what `loss` makes of the last norm's output, the head and the targets: by default all logits,
    and their mean cross entropy in float32. Without, the logits of the last position and None. A block runs by
    `run(block, x, rotation)`: `library_checkpoint` of utils.models.regions has it keep its input alone.

    Shapes: tokens[b, s], targets[b, s] -> x[b, s, d] (embeddings, each block) -> logits[b, s, V], loss[]
    Raises: ValueError for sizes that are no positive integers, an n_heads that does not divide d_model into even
            parts, an n_kv_heads that does not divide n_heads, an unknown kind, and for tokens that are not [b, s] or
            longer than context_length.
    Source: Touvron et al. 2023, section 2.2; Grattafiori et al. 2024, table 3.
    """

    def __init__(
        self,
        vocabulary_size: int = 128_256,
        context_length: int = 8192,
        d_model: int = 4096,
        n_layers: int = 32,
        n_heads: int = 32,
        n_kv_heads: int = 8,
        d_mlp: int = 14_336,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        kind: str = "sdpa",
        rope_theta: float = 500_000.0,
        is_tied: bool = False,
        loss: Loss = whole_logits,
        run: Run = lambda block, *args: block(*args),
    ) -> None:
        super().__init__()
        sizes = {"vocabulary_size": vocabulary_size, "context_length": context_length, "d_model": d_model}
        check_positive(**sizes, n_layers=n_layers, n_heads=n_heads, n_kv_heads=n_kv_heads, d_mlp=d_mlp)
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.context_length, self.loss, self.run = context_length, loss, run
        self.tokens = nn.Embedding(vocabulary_size, d_model, **factory)
        self.rotation = Rotation(d_model // n_heads, context_length, rope_theta, device)
        self.blocks = nn.ModuleList(
            LlamaBlock(d_model, n_heads, n_kv_heads, d_mlp, kind=kind, **factory) for _ in range(n_layers)
        )
        self.norm = nn.RMSNorm(d_model, eps=_EPS, **factory)
        self.head = nn.Linear(d_model, vocabulary_size, bias=False, **factory)
        if is_tied:
            self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=_STANDARD_DEVIATION)

    @classmethod
    def from_name(cls, name: str, **changes: Any) -> "Llama":
        """One of the public sizes by its name, "llama-3-8b" and others; `changes` are settings that take their place.

        Raises: ValueError for an unknown name, and as `Llama` does; TypeError for a setting that there is not.
        """
        _check_name(name)
        return cls(**SIZES[name] | changes)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor | None = None) -> tuple[torch.Tensor | None, ...]:
        if tokens.dim() != 2:
            raise ValueError(f"tokens must be tokens[b, s]: got {tokens.dim()} dimensions, {tuple(tokens.shape)}.")
        if tokens.shape[1] > self.context_length:
            raise ValueError(
                f"tokens may have context_length={self.context_length} positions at most: got {tokens.shape[1]}."
            )
        x = self.tokens(tokens)
        rotation = self.rotation(tokens.shape[1], x.dtype)
        for block in self.blocks:
            x = self.run(block, x, rotation)
        if targets is None:
            return self.head(self.norm(x)[:, [-1], :]), None
        return self.loss(self.norm(x), self.head, targets)


class LlamaBlock(nn.Module):
    """A pre-norm block: x + `attention`(`norm1`(x)), then the same with `norm2` and `mlp`.

    Shapes: x[b, s, d] -> x[b, s, d] (attention) -> y[b, s, d] (mlp)
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        d_mlp: int,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        kind: str = "sdpa",
    ) -> None:
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.norm1 = nn.RMSNorm(d_model, eps=_EPS, **factory)
        self.attention = GroupedAttention(d_model, n_heads, n_kv_heads, kind=kind, **factory)
        self.norm2 = nn.RMSNorm(d_model, eps=_EPS, **factory)
        self.mlp = GatedMLP(d_model, d_mlp, **factory)

    def forward(self, x: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), rotation)
        y: torch.Tensor = x + self.mlp(self.norm2(x))
        return y


class GroupedAttention(nn.Module):
    """Causal self-attention whose `n_heads` queries share `n_kv_heads` keys and values: Linears `q`, `k`, `v`, `out`.

    `kind="sdpa"` calls PyTorch's `scaled_dot_product_attention`; `kind="explicit"` spells it out, with keys and values
    repeated for each query. Queries and keys are turned before heads and positions change places.

    Shapes: x[b, s, d] -> q[b, s, a, d/a], k, v[b, s, g, d/a] -> weights[b, a, s, s] (explicit only) -> y[b, s, d]
    Raises: ValueError as `Llama` does.
    Source: Ainslie et al. 2023.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        kind: str = "sdpa",
    ) -> None:
        super().__init__()
        if d_model % n_heads or d_model // n_heads % 2:
            raise ValueError(
                f"n_heads must divide d_model into even parts, whose halves are turned: got n_heads={n_heads}, "
                f"d_model={d_model}."
            )
        if n_heads % n_kv_heads:
            raise ValueError(f"n_kv_heads must divide n_heads: got n_kv_heads={n_kv_heads}, n_heads={n_heads}.")
        if kind not in ("sdpa", "explicit"):
            raise ValueError(f'kind must be "sdpa" or "explicit": got kind={kind!r}.')
        factory: dict[str, Any] = {"bias": False, "device": device, "dtype": dtype}
        self.n_heads, self.n_kv_heads, self.kind = n_heads, n_kv_heads, kind
        d_kv = d_model // n_heads * n_kv_heads
        self.q = nn.Linear(d_model, d_model, **factory)
        self.k = nn.Linear(d_model, d_kv, **factory)
        self.v = nn.Linear(d_model, d_kv, **factory)
        self.out = nn.Linear(d_model, d_model, **factory)

    def forward(self, x: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        b, s, _ = x.shape
        q = turned(self.q(x).view(b, s, self.n_heads, -1), rotation).transpose(1, 2)
        k = turned(self.k(x).view(b, s, self.n_kv_heads, -1), rotation).transpose(1, 2)
        v = self.v(x).view(b, s, self.n_kv_heads, -1).transpose(1, 2)
        y: torch.Tensor = self.out(self._core(q, k, v).transpose(1, 2).reshape(b, s, -1))
        return y

    def _core(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        n_shared = self.n_heads // self.n_kv_heads
        if self.kind == "sdpa":
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=n_shared > 1)
        if n_shared > 1:
            k, v = (x.repeat_interleave(n_shared, dim=1) for x in (k, v))
        scores = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(q.size(-1)))
        later = torch.ones(q.size(-2), q.size(-2), dtype=torch.bool, device=q.device).triu(1)
        return F.softmax(scores.masked_fill(later, float("-inf")), dim=-1) @ v


class Rotation(nn.Module):
    """The tables `cos` and `sin` of rotary positions, buffers in float32: an angle for each position and pair.

    Called with a number of positions and a type, it returns both in that type.

    Shapes: cos, sin[context_length, 1, d_head]
    Source: Su et al. 2021, section 3.2.2; a pair is an element of the first half of a head and one of the second.
    """

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self, d_head: int, context_length: int, theta: float, device: Device = None) -> None:
        super().__init__()
        of_pairs = theta ** -(torch.arange(0, d_head, 2, dtype=torch.float32, device="cpu") / d_head)
        angles = torch.outer(torch.arange(context_length, dtype=torch.float32, device="cpu"), of_pairs)
        angles = torch.cat([angles, angles], dim=-1)[:, None]
        self.register_buffer("cos", angles.cos().to(device), persistent=False)
        self.register_buffer("sin", angles.sin().to(device), persistent=False)

    def forward(self, n_positions: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        return self.cos[:n_positions].to(dtype), self.sin[:n_positions].to(dtype)


def turned(x: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Queries or keys, each pair of numbers turned by its position's angle.

    Shapes: x[b, s, heads, d_head] -> the same
    """
    cos, sin = rotation
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin

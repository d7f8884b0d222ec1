"""Losses and layers of [BT, …] in the newer form of Liger-Kernel's benchmark, in PyTorch's own code, written anew.

Each run makes a gradient of its result, and keeps the graph.
"""

import torch
from torch import nn

from .liger import AddRMSNorm
from .liger_attention import by_sparsemax
from .liger_measure import DTYPES, by_mode


def loss_of_rows(gpu, BT: int, V: int, loss: str, mode: str, model: str = "") -> int:
    """A loss of float32, [BT, V]; `model` is whose vocabulary has V entries."""
    x = torch.randn(BT, V, requires_grad=True, device=gpu.device)
    if loss == "cross_entropy":
        target = torch.randint(V, (BT,), device=gpu.device)
        return by_mode(gpu, mode, lambda: nn.CrossEntropyLoss()(x, target))
    x = x.log_softmax(dim=-1)
    if loss == "kl_div":
        target = torch.randn(BT, V, device=gpu.device).softmax(dim=-1)
        return by_mode(gpu, mode, lambda: nn.KLDivLoss(reduction="batchmean")(x, target))
    target = torch.randn(BT, V, device=gpu.device).log_softmax(dim=-1)
    return by_mode(gpu, mode, lambda: divergence_by_row(x, target))


def divergence_by_row(log_q: torch.Tensor, log_p: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Jensen and Shannon's divergence, summed row by row."""
    kl = nn.KLDivLoss(reduction="none", log_target=True)
    log_p, log_q = log_p.to(torch.float), log_q.to(torch.float)
    mean = torch.lerp(torch.exp(log_q), torch.exp(log_p), 0.5)
    loss = 0.5 * kl(torch.log(mean), log_p).sum(dim=-1) + 0.5 * kl(torch.log(mean), log_q).sum(dim=-1)
    return (loss / log_q.shape[0]).sum().to(dtype)


class _DyT(nn.Module):
    """A tanh of scaled numbers instead of a norm."""

    def __init__(self, width: int, beta: bool) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1) * 0.5)
        self.gamma = nn.Parameter(torch.ones(width))
        self.beta = nn.Parameter(torch.zeros(width)) if beta else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.gamma * torch.tanh(x * self.alpha)
        return y if self.beta is None else y + self.beta


class _PolyNorm(nn.Module):
    """A weighted sum of the first three powers, each normalized, in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.full((3,), 1 / 3)), nn.Parameter(torch.tensor(1.0))

    @staticmethod
    def _norm(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dtype = x.dtype
        x = x.to(torch.float32)
        cube, square, itself = x**3, x**2, x**1
        cube_norm, square_norm, norm = self._norm(cube), self._norm(square), self._norm(itself)
        y = self.weight[0] * cube_norm + self.weight[1] * square_norm + self.weight[2] * norm + self.bias
        return y.to(dtype)


class _Summed(AddRMSNorm):
    """The norm of the input plus a residual, which the layer holds; the sum goes nowhere."""

    def __init__(self, width: int, residual: torch.Tensor) -> None:
        super().__init__(width, 1e-6)
        self.residual = residual

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x, self.residual)[0]


def layer_of_rows(gpu, BT: int, hidden_size: int, dtype: str, layer: str, mode: str) -> int:
    """A layer of [BT, hidden_size]; a group norm, of [BT / 512, hidden_size, 512]."""
    kind, device = DTYPES[dtype], gpu.device
    shape = (BT // 512, hidden_size, 512) if layer == "group_norm" else (BT, hidden_size)
    x = torch.randn(shape, device=device, dtype=kind, requires_grad=True)
    layers = {
        "layer_norm": lambda: nn.LayerNorm(hidden_size, eps=1e-6).to(device).to(kind),
        "group_norm": lambda: nn.GroupNorm(hidden_size // 4, hidden_size, eps=1e-6).to(device=device, dtype=kind),
        "dyt": lambda: _DyT(hidden_size, beta=False).to(device),
        "dyt_with_beta": lambda: _DyT(hidden_size, beta=True).to(device),
        "poly_norm": lambda: _PolyNorm().to(device),
        "sparsemax": lambda: by_sparsemax,
        "softmax": lambda: nn.Softmax(dim=-1),
        "fused_add_rms_norm": lambda: _Summed(hidden_size, torch.randn_like(x, requires_grad=True)).to(device),
    }
    made = layers[layer]()
    return by_mode(gpu, mode, lambda: made(x))

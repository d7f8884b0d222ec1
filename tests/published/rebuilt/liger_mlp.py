"""The gated MLPs of Liger-Kernel's benchmark in PyTorch's own code, whole and in tiles, written anew."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from .liger_measure import DTYPES, by_mode


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


class _Tiled(torch.autograd.Function):
    """DeepSpeed's: forward without a graph in shards of the tokens, each once more, with its backward, in backward."""

    @staticmethod
    def forward(ctx, layer: nn.Module, x: torch.Tensor, n_shards: int) -> torch.Tensor:
        ctx.layer, ctx.n_shards = layer, n_shards
        ctx.save_for_backward(x)
        shards = list(torch.chunk(x, n_shards, dim=-2))
        with torch.no_grad():
            results = [layer(shard) for shard in shards]
        return torch.cat(results, dim=-2)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[None, torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        shape = x.shape
        x = x.detach().view(-1, shape[-1])
        gradient = gradient.view(-1, shape[-1])
        x_gradient = torch.zeros_like(x)
        at = 0
        for shard in torch.chunk(x, ctx.n_shards, dim=0):
            n = len(shard)
            shard.requires_grad_(True)
            shard.grad = x_gradient.narrow(0, at, n)
            with torch.enable_grad():
                y = ctx.layer(shard)
            torch.autograd.backward(y, gradient.narrow(0, at, n))
            at += n
        return None, x_gradient.view(shape), None


def tiled_mlp(
    gpu, T: int, bsz: int, hidden_size: int, intermediate_size: int, hidden_act: str, num_shards: int, mode: str,
    after: str = "",
) -> int:  # fmt: skip
    """Llama's MLP of bfloat16, [bsz, T, hidden_size], in DeepSpeed's tiles."""
    if after:
        tiled_mlp(gpu, T, bsz, hidden_size, intermediate_size, hidden_act, num_shards, after)
    x = torch.randn(bsz, T, hidden_size, device=gpu.device, dtype=torch.bfloat16, requires_grad=True)
    layer = _MLP(hidden_size, intermediate_size, FUNCTIONS[hidden_act]).to(gpu.device).to(torch.bfloat16)
    given = torch.randn_like(x) if mode == "backward" else None
    return by_mode(gpu, mode, lambda: _Tiled.apply(layer, x, num_shards), given)

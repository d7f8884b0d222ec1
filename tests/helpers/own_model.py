"""A reader's model for the exercises of chapter 8: PyTorch's own encoder, small, and its account."""

from functools import cache, partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from every_byte.account import account, numbers

SIZES = {"b": 4, "s": 50, "d": 64, "L": 3}


def encoder(d: int, L: int, dropout: float = 0.1) -> nn.Module:
    """So many layers of 8 heads, and a head of ten classes."""
    layer = nn.TransformerEncoderLayer(d, nhead=8, dim_feedforward=4 * d, dropout=dropout, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, L), nn.Linear(d, 10))


def saving(d: int, L: int) -> nn.Module:
    """The same, with a checkpoint of each layer."""
    model = encoder(d, L)
    for layer in model[0].layers:
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)
    return model


def mean(output, batch):
    return output.mean()


def account_of(make, **changed):
    """Its account at SIZES, or at others."""
    return account(make, (numbers("b", "s", "d"),), loss=mean, **SIZES | changed)


@cache
def own():
    """That of the encoder, made once."""
    return account_of(encoder)


def kept_bytes(b: int, s: int, d: int, L: int) -> int:
    """What forward keeps for backward, with a pencil: float32, masks of a byte, rows of logsumexp rounded up to 32."""
    rows = -(-s // 32) * 32
    return L * (4 * (17 * b * s * d + 8 * b * rows + 4 * b * s) + 6 * b * s * d) + 4 * b * s * d
